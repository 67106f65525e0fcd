import { setTimeout as delay } from 'node:timers/promises'
import { readEvents } from '../../test/support/chaos-events.ts'
import { Api } from '../../test/support/client.ts'
import type { Approval, Verified } from '../../test/support/client-types.ts'
import { say } from './report.ts'

const definition = {
  inputs: { subject: { type: 'string' }, keys: { type: 'array' } },
  steps: [
    { id: 'read', tool: 'file_read', params: { path: 'reports/q3-summary.md' } },
    { id: 'note', tool: 'memory_set', params: { key: '{{item}}', value: 'v' }, for_each: '{{input.keys}}' },
    {
      id: 'send',
      tool: 'mail_send',
      depends_on: ['note'],
      params: { to: 'a@example.com', subject: '{{input.subject}}', text: '{{read.output.text}}' },
    },
  ],
}

export interface Load {
  /** The number of acts of each kind. The kind `failures` counts failed acts. */
  readonly counts: Readonly<Record<string, number>>
  stop(): Promise<void>
}

/**
 * Starts a mixed load on a stack. The load starts runs whose mails require an approval, decides about these approvals,
 * and reads event streams and lists. The load also saves and deletes rules, and verifies the audit chain.
 */
export async function startLoad(dataDir: string): Promise<Load> {
  const people = (name: ConstructorParameters<typeof Api>[1]): Api => new Api(dataDir, name)
  const [owner, admin, approver, member] = [people('owner'), people('admin'), people('approver'), people('member')] // prettier-ignore
  await owner.settings({ approvals_enabled: true })
  await admin.createRule({ name: 'mail is looked at', verdict: 'require_approval', tools: ['mail_send'] })
  const workflowId = await member.createWorkflow('Soak', definition)
  const counts = { runs: 0, votes: 0, streams: 0, rules: 0, reads: 0, verified: 0, failures: 0 }
  const goesOn = { runs: true, rest: true }
  const loop = async (pause: number, work: () => Promise<void>, part: keyof typeof goesOn = 'rest') => {
    while (goesOn[part]) {
      await work().catch((error: Error) => {
        counts.failures += 1
        say(`  ${error.message.slice(0, 300)}`)
      })
      await delay(pause)
    }
  }
  const startOne = async (): Promise<void> => {
    const id = await member.execute(workflowId, { subject: `s ${counts.runs}`, keys: ['a', 'b', 'c'] })
    counts.runs += 1
    if (counts.runs % 10 > 0) return
    await readEvents(member, id, {})
    counts.streams += 1
  }
  const decideAll = async (): Promise<void> => {
    const { data } = await approver.good<{ data: Approval[] }>('GET', '/approvals?status=pending&limit=200')
    for (const { id } of data) {
      await approver.decide(id, counts.votes % 7 === 0 ? 'reject' : 'approve')
      counts.votes += 1
    }
  }
  const changeRules = async (): Promise<void> => {
    const rule = { name: `shadow ${counts.rules}`, verdict: 'deny', tools: ['memory_*'], status: 'shadow' }
    await admin.deleteRule((await admin.createRule(rule)).id)
    counts.rules += 1
  }
  const readAround = async (): Promise<void> => {
    for (const path of ['/runs?limit=50', '/workflows', '/tools', '/me', '/approvals?limit=50'])
      await member.good('GET', path).catch(() => admin.good('GET', path))
    counts.reads += 1
  }
  const verify = async (): Promise<void> => {
    const answer: Verified = await admin.verify()
    if (!answer.valid) throw new Error(`the chain does not verify: ${JSON.stringify(answer)}`)
    counts.verified += 1
  }
  const runs = [loop(250, startOne, 'runs'), loop(250, startOne, 'runs')]
  const rest = [loop(500, decideAll), loop(5_000, changeRules), loop(1_000, readAround), loop(60_000, verify)]
  return {
    counts,
    async stop() {
      // The loops that start runs must stop first. These loops wait for the end of some runs, and the runs need the
      // votes of another loop.
      goesOn.runs = false
      await Promise.all(runs)
      goesOn.rest = false
      await Promise.all(rest)
    },
  }
}
