import { randomUUID } from 'node:crypto'
import { expect } from '@jest/globals'
import type { CommitPoint } from '../../../src/governance/audit/commit-points.ts'
import { crashHome, govern, type CrashHome, type Fault } from '../../support/chaos.ts'
import type { Answer } from '../../support/client.ts'
import type { Approval, Run } from '../../support/client-types.ts'

export const both = (...points: CommitPoint[]): Fault[] =>
  points.flatMap((point) => [`${point}:before`, `${point}:after`] as const)

export interface Started {
  readonly subject: string
  readonly runId: Promise<string>
}

export const mailOf = (run: Run) => run.steps.find((step) => step.id === 'send') as Run['steps'][number]

/** The stack whose processes are killed, and its runs. */
export class Kills {
  /** Started before the first test. */
  home!: CrashHome
  #workflowId = ''
  /** Runs whose mail is held, or will be. */
  readonly held: Started[] = []
  /** Recoveries that go on beside the next tests. A later test awaits them, and so shows what failed. */
  readonly waiting: Promise<unknown>[] = []

  async open(): Promise<void> {
    this.home = await crashHome()
    for (const who of ['owner', 'admin', 'approver'] as const) await this.preferMails(who, false)
    this.#workflowId = await govern(this.home, { settings: { approval_required_from: 'high' } })
  }

  /** Whether this person gets a mail at once about what waits for them. */
  preferMails(who: 'owner' | 'admin' | 'approver', mail: boolean): Promise<unknown> {
    return this.home[who].good('PUT', '/me/notifications', { mail, delay_seconds: 0 })
  }

  /** Without the handler, a failed recovery would end the whole test process before a test awaits it. */
  later(recovery: Promise<unknown>): void {
    recovery.catch(() => undefined)
    this.waiting.push(recovery)
  }

  /** Starts a run; the client repeats the request with the same key until it gets an answer. */
  start(subject: string): Started {
    const inputs = { subject, keys: [`${subject}/1`, `${subject}/2`] }
    const runId = this.home.member.execute(this.#workflowId, inputs, { key: randomUUID() })
    runId.catch(() => undefined)
    return { subject, runId }
  }

  /** A careful approver: repeats the request with the same key, and finally checks whether the vote was counted. */
  async approve(approvalId: string): Promise<void> {
    const { approver } = this.home
    const answer: Answer<Approval> = await approver.decide(approvalId, 'approve', { key: randomUUID() })
    const { votes } = await approver.approval(approvalId)
    const mine = approver.bootstrap.users.approver.user_id
    expect({
      status: answer.status,
      votes: votes.map(({ user_id, decision }) => ({ user_id, decision })),
    }).toEqual({
      status: 200,
      votes: [{ user_id: mine, decision: 'approve' }],
    })
  }

  async approveRun({ runId }: Started): Promise<void> {
    await this.approve(await this.home.approver.untilHeld(await runId, 'run'))
  }

  async heldMail(started: Started): Promise<string> {
    return this.home.approver.untilHeld(await started.runId, 'step')
  }
}
