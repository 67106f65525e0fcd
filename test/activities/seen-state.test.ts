import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { ApplicationFailure } from '@temporalio/common'
import { createToolActivities } from '../../src/activities/tool-activities.ts'
import { StateChanged, ToolError } from '../../src/activities/tools/executor.ts'
import { stateReaders } from '../../src/activities/tools/index.ts'
import type { DecidedCall } from '../../src/activities/decided-call.ts'
import { catalog, getTool } from '../../src/catalog/index.ts'
import type { Precondition, ToolDeclaration } from '../../src/catalog/tool.ts'
import { readApproval, type ApprovalView } from '../../src/governance/approvals/read.ts'
import { mostChanges } from '../../src/governance/runs/effects/approval-use.ts'
import { deleteMemory, readMemory, setMemory } from '../../src/governance/tools/memory.ts'
import type { BootstrapName } from '../../src/governance/people/bootstrap.ts'
import type { Json } from '../../src/policy/types.ts'
import {
  approvalsOf,
  effectOf,
  holdRule,
  opOf,
  runOf,
  stepOf,
  useEngine,
  type Engine,
} from '../governance/runs/engine-fixture.ts'
import { execute as executeIn } from './execute.ts'

/* An approval of `memory_set` covers the value that its approvers saw. */

let engine: Engine
useEngine((started) => (engine = started))
beforeEach(() => engine.rules(holdRule({ tools: ['memory_set'] })))

const bodies = createToolActivities()
let keys = 0
const newKey = () => `k${(keys += 1)}`

const put = (key: string, value: Json) =>
  setMemory(engine.context, engine.caller('admin'), { key, value, labels: null })
const present = async (key: string) =>
  (await readMemory(engine.context, engine.organizationId, key).catch(() => null))?.value

interface Call {
  readonly runId: string
  readonly key: string
}

/** A run whose only call stores `value`. */
async function storing(key: string, value: Json = 'new'): Promise<Call> {
  return {
    runId: await engine.run({ steps: [{ id: 's', tool: 'memory_set', params: { key, value } }] }),
    key,
  }
}

/** One attempt at the call, as a worker makes it. Returns the outcome or the type of the failure. */
async function attempt({ runId }: Call, before: () => Promise<unknown> = async () => {}): Promise<unknown> {
  const { answer } = await executeIn(engine.context, {
    workflowId: runId,
    activityType: 'memory_set',
    args: [{ runId, stepId: 's', itemIndex: null }],
    body: async (decided) => {
      await before()
      return bodies['memory_set']!(decided)
    },
  })
  if (!(answer instanceof ApplicationFailure)) return (answer as { outcome?: string }).outcome ?? answer
  const [details] = (answer.details ?? []) as { outcome?: string }[]
  return details?.outcome ?? answer.type
}

const newest = async ({ runId }: Call) => (await approvalsOf(engine.context, runId)).at(-1)!
const view = async (call: Call, name: BootstrapName = 'admin'): Promise<ApprovalView> => {
  const { userId, organizationId, role } = engine.caller(name) as never as { userId: string; organizationId: string; role: 'admin' } // prettier-ignore
  return readApproval(engine.context, { userId, organizationId, role }, (await newest(call)).id)
}
const approve = async (call: Call) => engine.vote((await newest(call)).id, 'admin')

/** A held call, which a person has approved. */
async function approved(key: string, value: Json = 'new'): Promise<Call> {
  const call = await storing(key, value)
  expect(await attempt(call)).toBe('ApprovalRequired')
  await approve(call)
  return call
}

const held = 'ApprovalRequired'
const because = 'the value in the memory has changed since it was approved'

describe('an approver', () => {
  test('sees the old value against the new one, and the labels of the key', async () => {
    const key = newKey()
    await setMemory(engine.context, engine.caller('admin'), { key, value: { a: 1 }, labels: ['pii'] })
    const call = await storing(key, { a: 2 })
    await attempt(call)
    expect(await view(call)).toMatchObject({
      reversible: 'by hand',
      supersedes_id: null,
      held_again: null,
      preview: {
        title: `Store a value under “${key}”`,
        fields: [
          { name: 'key', value: key },
          { name: 'value', value: '{\n  "a": 2\n}' },
          { name: 'labels of the key now', value: 'pii' },
        ],
        diff: { before: '{\n  "a": 1\n}', after: '{\n  "a": 2\n}', skipped: 0 },
      },
    })
  })

  test('sees that a key is empty', async () => {
    const call = await storing(newKey())
    await attempt(call)
    expect((await view(call)).preview?.diff).toEqual({ before: null, after: '"new"', skipped: 0 })
  })

  test('sees a large value from its first difference, in a preview of limited size', async () => {
    const key = newKey()
    const same = 'same '.repeat(50_000)
    await put(key, `${same}old`)
    const call = await storing(key, `${same}new`)
    await attempt(call)
    const { preview } = await view(call)
    expect(preview?.diff?.before).toMatch(/same old"$/)
    expect(preview?.diff?.after).toMatch(/same new"$/)
    expect(JSON.stringify(preview).length).toBeLessThan(20_000)
  })

  test('nobody else sees it, and the row has it sealed', async () => {
    const key = newKey()
    await put(key, 'the-old-value')
    const call = await storing(key)
    await attempt(call)
    expect(await view(call, 'member')).not.toHaveProperty('preview')
    const { state_sealed: sealed } = await newest(call)
    expect(sealed?.includes('the-old-value')).toBe(false)
    expect(JSON.stringify((await view(call)).preview)).toContain('the-old-value')
  })
})

describe('an approved call', () => {
  test('is made while the key is as its approvers saw it', async () => {
    const key = newKey()
    await put(key, 'old')
    const call = await approved(key)
    await engine.context.pool.query('update memory set value_sealed = value_sealed where key = $1', [key])
    expect(await attempt(call)).toBe('completed')
    expect(await present(key)).toBe('new')
    expect(await approvalsOf(engine.context, call.runId)).toHaveLength(1)
  })

  /** Each change between the approval and the call, from an empty key or a value. */
  const changes: readonly (readonly [
    string,
    Json | null,
    (key: string) => Promise<unknown>,
    Json | undefined,
  ])[] = [
    ['another value', 'old', (key) => put(key, 'other'), 'other'],
    ['the same value stored again', 'old', (key) => put(key, 'old'), 'old'],
    ['changed and changed back', 'old', async (key) => (await put(key, 'other'), put(key, 'old')), 'old'],
    ['deleted', 'old', (key) => deleteMemory(engine.context, engine.caller('admin'), key), undefined],
    ['deleted and stored again', 'old', async (key) => (await deleteMemory(engine.context, engine.caller('admin'), key), put(key, 'old')), 'old'], // prettier-ignore
    ['stored under an empty key', null, (key) => put(key, 'other'), 'other'],
  ]
  test.each(changes)(
    '%s: nothing is written, and a person is asked again',
    async (_, before, change, now) => {
      const key = newKey()
      if (before !== null) await put(key, before)
      const call = await approved(key)
      await change(key)
      expect(await attempt(call)).toBe(held)
      expect(await present(key)).toBe(now)
      const [first, second, ...more] = await approvalsOf(engine.context, call.runId)
      expect(more).toEqual([])
      expect(first).toMatchObject({ status: 'approved', superseded_by: second?.id })
      expect(second).toMatchObject({ status: 'pending', supersedes_id: first?.id, held_again: because })
      expect(await view(call)).toMatchObject({
        supersedes_id: first?.id,
        held_again: because,
        votes: [],
        preview: { diff: { before: now === undefined ? null : JSON.stringify(now) } },
      })
      expect(await runOf(engine.context, call.runId)).toMatchObject({ status: 'paused' })
      expect(await stepOf(engine.context, call.runId)).toMatchObject({ status: 'held' })
      // The votes on the first approval do not let the call through.
      expect(await attempt(call)).toBe(held)
      await approve(call)
      expect(await attempt(call)).toBe('completed')
      expect(await present(key)).toBe('new')
    },
  )

  test('a change after its decision, while its body runs, counts too', async () => {
    const key = newKey()
    await put(key, 'old')
    const call = await approved(key)
    expect(await attempt(call, () => put(key, 'other'))).toBe(held)
    expect(await present(key)).toBe('other')
  })

  test('two approvals for one key: the first write asks again for the second', async () => {
    const key = newKey()
    const calls = [await approved(key, 'one'), await approved(key, 'two')]
    const answers = await Promise.all(calls.map((call) => attempt(call)))
    expect(new Set(answers)).toEqual(new Set([held, 'completed']))
    const [written, waits] = answers[0] === held ? ['two', calls[0]!] : ['one', calls[1]!]
    expect(await present(key)).toBe(written)
    expect((await view(waits)).preview?.diff).toMatchObject({ before: JSON.stringify(written) })
  })

  test('audit log and receipt tell both approvals', async () => {
    const key = newKey()
    const call = await approved(key)
    const first = await newest(call)
    await put(key, 'other')
    await attempt(call)
    const second = await newest(call)
    const { rows } = await engine.context.pool.query<{ metadata: Record<string, unknown> }>(
      `select canonical::jsonb->'metadata' as metadata from audit_events
       where run_id = $1 and event_type = 'approval.requested' order by seq`,
      [call.runId],
    )
    expect(
      rows.map(({ metadata }) => [metadata['approval_id'], metadata['supersedes_id'], metadata['because']]),
    ).toEqual([
      [first.id, undefined, undefined],
      [second.id, first.id, because],
    ])
    const decisions = await engine.context.db
      .selectFrom('decisions')
      .select(['approval_id', 'explanation'])
      .where('run_id', '=', call.runId)
      .orderBy('seq')
      .execute()
    expect(decisions.map(({ approval_id }) => approval_id)).toEqual([first.id, first.id, second.id])
    expect(decisions.at(-1)?.explanation).toContain(`held again: ${because}`)
  })

  test('asks a limited number of times, and then fails', async () => {
    const key = newKey()
    const call = await approved(key)
    for (let round = 1; round <= mostChanges; round += 1) {
      await put(key, round)
      expect([round, await attempt(call)]).toEqual([round, held])
      await approve(call)
    }
    await put(key, 'once more')
    expect(await attempt(call)).toBe('failed')
    expect(await present(key)).toBe('once more')
    expect(await effectOf(engine.context, opOf(call.runId))).toMatchObject({
      state: 'failed',
      error: { code: 'changed_too_often' },
    })
  })

  test('is made whatever the key is, once no rule holds it', async () => {
    const key = newKey()
    const call = await approved(key)
    const gone = async () => (await engine.rules(), await put(key, 'other'))
    expect(await attempt(call, gone)).toBe('Unavailable')
    expect(await attempt(call)).toBe('completed')
    expect(await present(key)).toBe('new')
  })

  test('is checked too if its rule was gone at its decision, and is back when it acts', async () => {
    const key = newKey()
    const call = await approved(key)
    await engine.rules()
    const back = async () => {
      await engine.rules(holdRule({ tools: ['memory_set'] }))
      await put(key, 'other')
    }
    expect(await attempt(call, back)).toBe('Unavailable')
    expect(await attempt(call)).toBe(held)
    expect(await present(key)).toBe('other')
  })

  test('without a rule that holds it, no state is read, and the last writer wins', async () => {
    await engine.rules()
    const key = newKey()
    const call = await storing(key)
    expect(await attempt(call, () => put(key, 'other'))).toBe('completed')
    expect(await present(key)).toBe('new')
    expect(await approvalsOf(engine.context, call.runId)).toEqual([])
  })
})

describe('what a call changes cannot be read', () => {
  /** Replaces the reader of `memory_set` while `work` runs. */
  async function reading(read: () => Promise<never>, work: () => Promise<void>): Promise<void> {
    const readers = stateReaders as Record<string, unknown>
    const real = readers['memory_set']
    readers['memory_set'] = read
    try {
      await work()
    } finally {
      readers['memory_set'] = real
    }
  }

  test('the approval is made all the same, says so, and covers the parameters', async () => {
    const key = newKey()
    const call = await storing(key)
    const refuse = async () => {
      throw new ToolError('github_forbidden', 'no', { retryable: false })
    }
    await reading(refuse, async () => {
      expect(await attempt(call)).toBe(held)
    })
    expect((await view(call)).preview).toMatchObject({
      note: 'It could not be read what the call changes (`github_forbidden`). The approval covers the parameters alone.',
    })
    await approve(call)
    await put(key, 'other')
    expect(await attempt(call)).toBe('completed')
  })

  test('an outage of the database makes no approval', async () => {
    const call = await storing(newKey())
    const outage = async () => {
      throw Object.assign(new Error('gone'), { code: 'ECONNREFUSED' })
    }
    await reading(outage, async () => {
      expect(await attempt(call)).toBe('Unavailable')
    })
    expect(await approvalsOf(engine.context, call.runId)).toEqual([])
    expect(await attempt(call)).toBe(held)
  })
})

describe('a service outside', () => {
  let revision = 'r1'
  let sent = 0
  const tool = getTool('mail_send') as { precondition?: Precondition }
  const readers = stateReaders as Record<string, unknown>
  beforeAll(() => void (readers['mail_send'] = async () => ({ revision, fields: { title: 'a title' } })))
  afterAll(() => {
    delete tool.precondition
    delete readers['mail_send']
  })
  beforeEach(async () => {
    revision = 'r1'
    sent = 0
    await engine.rules(holdRule())
  })

  const mail = async (): Promise<string> =>
    engine.run({
      steps: [{ id: 's', tool: 'mail_send', params: { to: 'a@b.test', subject: 's', text: 't' } }],
    })
  /** One attempt. After the point of no return, its body sends, or reports that the call has found another revision. */
  async function send(
    runId: string,
    accepts: (given: string | null) => boolean = () => true,
  ): Promise<unknown> {
    const { answer } = await executeIn(engine.context, {
      workflowId: runId,
      activityType: 'mail_send',
      args: [{ runId, stepId: 's', itemIndex: null }],
      body: async (decided) => {
        const { call, context } = decided as DecidedCall
        await context.pointOfNoReturn()
        if (!accepts(call.revision)) throw new StateChanged()
        sent += 1
        return { output: { message_id: 'm', accepted: [] } }
      },
    })
    return answer instanceof ApplicationFailure ? answer.type : (answer as { outcome: string }).outcome
  }
  const approveNewest = async (runId: string) =>
    engine.vote((await approvalsOf(engine.context, runId)).at(-1)!.id, 'admin')

  test.each(['before', 'call'] as const)(
    'checked by `%s`: a change asks again, and nothing is sent',
    async (check) => {
      tool.precondition = { of: 'the thing', check }
      const accepts = (given: string | null) => check === 'before' || given === revision
      const runId = await mail()
      expect(await send(runId, accepts)).toBe(held)
      await approveNewest(runId)
      revision = 'r2'
      expect(await send(runId, accepts)).toBe(held)
      expect(sent).toBe(0)
      expect(await effectOf(engine.context, opOf(runId))).toMatchObject({ state: 'held', sent_at: null })
      const [, second] = await approvalsOf(engine.context, runId)
      expect(second?.held_again).toBe('the thing has changed since it was approved')
      await approveNewest(runId)
      expect(await send(runId, accepts)).toBe('completed')
      expect(sent).toBe(1)
    },
  )

  test('a service that cannot be read before sending fails the attempt', async () => {
    tool.precondition = { of: 'the thing', check: 'before' }
    const runId = await mail()
    await send(runId)
    await approveNewest(runId)
    const real = readers['mail_send']
    readers['mail_send'] = async () => {
      throw new ToolError('away', 'the service is away', { retryable: true })
    }
    try {
      expect(await send(runId)).toBe('Unavailable')
    } finally {
      readers['mail_send'] = real
    }
    expect(sent).toBe(0)
    expect(await send(runId)).toBe('completed')
  })
})

test('every tool with a precondition has a reader, and none is `keyed`', () => {
  const tools: readonly ToolDeclaration[] = Object.values(catalog)
  const declaring = tools.filter(({ precondition }) => precondition !== undefined)
  expect(declaring.map(({ name }) => name).sort()).toEqual(Object.keys(stateReaders).sort())
  expect(declaring.map(({ repeat }) => repeat)).not.toContain('keyed')
})

const acts = fc.array(fc.constantFrom('put a', 'put b', 'delete', 'approve', 'attempt'), { maxLength: 12 })

test('whatever happens meanwhile, a call stores only over the value that the approvers of its approval saw', async () => {
  await fc.assert(
    fc.asyncProperty(acts, async (each) => {
      const call = await storing(newKey())
      /** The stored value when each approval was requested, by the approval's id. */
      const shown = new Map<string, Json | undefined>()
      let approved: string | null = null
      for (const act of ['attempt', ...each, 'approve', 'attempt']) {
        if (act.startsWith('put')) await put(call.key, act.slice(4))
        else if (act === 'delete')
          await deleteMemory(engine.context, engine.caller('admin'), call.key).catch(() => {})
        else if (act === 'approve') {
          const { id, status } = await newest(call)
          if (status !== 'pending') continue
          await engine.vote(id, 'approver')
          approved = id
        } else {
          const before = await present(call.key)
          const outcome = await attempt(call)
          if (outcome === 'completed') {
            expect(shown.get(approved ?? '')).toEqual(before)
            expect(await present(call.key)).toBe('new')
            return
          }
          const { id } = await newest(call)
          if (!shown.has(id)) shown.set(id, before)
        }
      }
      expect(await present(call.key)).not.toBe('new')
    }),
    { numRuns: 25 },
  )
})
