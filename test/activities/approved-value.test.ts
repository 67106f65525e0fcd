import { beforeEach, describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { mostChanges } from '../../src/governance/runs/effects/approval-use.ts'
import { deleteMemory } from '../../src/governance/tools/memory.ts'
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
import { held, memoryCalls, newKey } from './memory-calls.ts'

/* An approval of `memory_set` covers the value that its approvers saw. */

let engine: Engine
useEngine((started) => (engine = started))
beforeEach(() => engine.rules(holdRule({ tools: ['memory_set'] })))
const { put, present, storing, attempt, newest, view, approve, approved } = memoryCalls(() => engine)

const because = 'the value in the memory has changed since it was approved'

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
