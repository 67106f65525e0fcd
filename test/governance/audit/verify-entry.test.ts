import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { chainStart, sealEntry, type EntryDraft } from '../../../src/governance/audit/entry.ts'
import { sha256 } from '../../../src/shared/canonical-json.ts'
import { ChainChecker, type Mismatch, type StoredEntry } from '../../../src/governance/audit/verify-entry.ts'
import type { Json } from '../../../src/policy/types.ts'

const organizationId = 'org_01J00000000000000000000000'
const at = new Date('2026-03-04T05:06:07.089Z')

/** Strings that look like the parts of an entry that the checker reads. */
const awkward = fc.oneof(
  fc.string(),
  fc.constantFrom(
    'policy_version',
    '"policy_version":9',
    ',"organization_id":"org_x","prev_hash":"',
    `,"organization_id":"${organizationId}","prev_hash":"${'0'.repeat(64)}","run_id":null,"seq":1`,
    '","metadata":{',
    '\\',
    '"',
    '\n',
    '😀',
  ),
)
const keys = awkward.filter((key) => key !== '__proto__' && key.isWellFormed())
const text = awkward.filter((value) => value.isWellFormed())
const json = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    text,
    fc.integer(),
    fc.constant(null),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(keys, tie('value'), { maxKeys: 3 }),
  ),
})).value
const drafts = fc.record({
  eventType: text,
  action: text,
  status: text,
  actor: fc.oneof(
    fc.record({
      type: fc.constant('user' as const),
      id: text,
      ip: fc.option(text),
      apiKeyId: fc.option(text),
    }),
    fc.record({ type: fc.constant('system' as const), id: text }),
  ),
  workflowId: fc.option(text),
  runId: fc.option(text),
  durationMs: fc.option(fc.nat()),
  metadata: fc.dictionary(keys, json, { maxKeys: 4 }),
}) as fc.Arbitrary<EntryDraft>
const chains = fc
  .array(fc.record({ draft: drafts, saves: fc.nat(2) }), { minLength: 1, maxLength: 6 })
  .map(seal)

function seal(steps: readonly { draft: EntryDraft; saves: number }[]): {
  entries: StoredEntry[]
  version: number
} {
  let position = chainStart
  let version = 1
  const entries: StoredEntry[] = []
  for (const { draft, saves } of steps) {
    version += saves
    const entry = sealEntry(organizationId, position, version, at, draft)
    position = entry
    entries.push({ canonical: entry.canonical, hash: entry.hash })
  }
  return { entries, version }
}

function check(
  entries: readonly StoredEntry[],
  policyVersion: number,
  head = entries.at(-1),
): Mismatch | null {
  const checker = new ChainChecker(organizationId)
  for (const entry of entries) {
    const mismatch = checker.next(entry)
    if (mismatch !== null) return mismatch
  }
  return checker.end({
    seq: entries.length,
    hash: head?.hash ?? chainStart.hash,
    mac: null,
    policy_version: policyVersion,
  })
}

const rehashed = (canonical: string): StoredEntry => ({
  canonical,
  hash: sha256(canonical),
})

describe('laws', () => {
  test('sealed entries are valid, with any words', () => {
    fc.assert(fc.property(chains, ({ entries, version }) => expect(check(entries, version)).toBeNull()))
  })

  test('any edit of the bytes is found at that entry', () => {
    fc.assert(
      fc.property(chains, fc.nat(), fc.nat(), text, ({ entries, version }, which, where, inserted) => {
        const index = which % entries.length
        const entry = entries[index] as StoredEntry
        const place = where % entry.canonical.length
        const canonical = entry.canonical.slice(0, place) + inserted + entry.canonical.slice(place + 1)
        fc.pre(canonical !== entry.canonical)
        const edited = entries.with(index, { ...entry, canonical })
        // An edited `seq` may be a later position. Then the entry of the original position is missing.
        const reason = expect.stringMatching(/^(?:hash|gap)$/)
        expect(check(edited, version)).toMatchObject({ seq: index + 1, reason })
      }),
    )
  })

  test('any edit with a matching hash is found there or at the next entry, and never throws', () => {
    fc.assert(
      fc.property(chains, fc.nat(), fc.nat(), text, ({ entries, version }, which, where, inserted) => {
        const index = which % entries.length
        const entry = entries[index] as StoredEntry
        const place = where % entry.canonical.length
        const canonical = entry.canonical.slice(0, place) + inserted + entry.canonical.slice(place + 1)
        fc.pre(canonical !== entry.canonical)
        const edited = entries.with(index, rehashed(canonical))
        const mismatch = check(edited, version, entries.at(-1))
        expect(['link', 'gap']).toContain(mismatch?.reason)
        expect([index + 1, index + 2]).toContain(mismatch?.seq)
      }),
    )
  })

  const linked = ['seq', 'organization_id', 'prev_hash'] as const
  test('an entry with a wrong position, owner or predecessor is found even as the last, with matching head and hash', () => {
    fc.assert(
      fc.property(chains, fc.constantFrom(...linked), json, ({ entries, version }, name, value) => {
        const last = entries.at(-1) as StoredEntry
        const fields = JSON.parse(last.canonical)
        fc.pre(fields[name] !== value)
        // A text that is edited in place and a text that is serialized again are parsed differently. Both edits must be
        // found.
        const canonical = last.canonical.replace(
          new RegExp(
            `(,"${name}":)(?:${JSON.stringify(fields[name])})(?!.*,"${name}":${JSON.stringify(fields[name])})`,
            's',
          ),
          (_all, key: string) => key + JSON.stringify(value),
        )
        for (const forged of [canonical, JSON.stringify({ ...fields, [name]: value })]) {
          const edited = entries.with(-1, rehashed(forged))
          const reason =
            name === 'seq' && typeof value === 'number' && value > entries.length ? 'gap' : 'link'
          expect(check(edited, version)).toMatchObject({ seq: entries.length, reason })
        }
      }),
    )
  })

  test('a decreasing policy version is found, sealed or re-serialised', () => {
    fc.assert(
      fc.property(drafts, drafts, (first, second) => {
        const a = sealEntry(organizationId, chainStart, 5, at, first)
        const b = sealEntry(organizationId, a, 4, at, second)
        const reserialised = JSON.stringify(
          Object.fromEntries(Object.entries(JSON.parse(b.canonical)).reverse()),
        )
        for (const entry of [b, rehashed(reserialised)])
          expect(check([a, entry], 5)).toMatchObject({ seq: 2, reason: 'link', found: 'policy version 4' })
      }),
    )
  })
})

describe('the codes of a long chain', () => {
  const draft = { eventType: 'e', action: 'a', status: 's', actor: { type: 'system', id: 'x' } } as const
  const { entries } = seal(Array.from({ length: 250 }, () => ({ draft, saves: 0 })))
  const last = entries.at(-1) as StoredEntry

  /** Checks the chain, as if this service had written the entries up to `ours` only. */
  const verify = (
    chain: readonly StoredEntry[],
    ours: number,
    withHead = true,
  ): [Mismatch | null, number] => {
    const checker = new ChainChecker(organizationId, ({ seq }, mac) => seq <= ours && mac === 'right')
    const head = { seq: entries.length, hash: last.hash, mac: 'right', policy_version: 1 }
    for (const entry of chain) {
      const mismatch = checker.next(entry, 'right')
      if (mismatch !== null) return [mismatch, checker.entries]
    }
    return [checker.end(withHead ? head : null), checker.entries]
  }

  test.each([0, 1, 98, 99, 100, 101, 199, 200, 248, 249])('name the first of %i and more', (ours) => {
    const foreign = { seq: ours + 1, id: expect.stringMatching(/^evt_/), reason: 'foreign' }
    for (const withHead of [true, false])
      expect(verify(entries, ours, withHead)).toEqual([expect.objectContaining(foreign), ours])
  })

  test('are asked before a later mismatch is named', () => {
    const edited = entries.with(150, { ...last, hash: 'f'.repeat(64) })
    expect(verify(edited, 120)).toEqual([expect.objectContaining({ seq: 121, reason: 'foreign' }), 120])
    expect(verify(edited, 250)).toEqual([expect.objectContaining({ seq: 151 }), 150])
  })

  test('are right, with and without a head', () => {
    expect(verify(entries, 250)).toEqual([null, 250])
    expect(verify(entries, 250, false)).toEqual([expect.objectContaining({ found: 'no head' }), 250])
  })
})

test('values of an entry are shown shortened', () => {
  const { entries } = seal([
    { draft: { eventType: 'e', action: 'a', status: 's', actor: { type: 'system', id: 'x' } }, saves: 0 },
  ])
  const first = entries[0] as StoredEntry
  const long = JSON.stringify({ ...JSON.parse(first.canonical), prev_hash: 'x'.repeat(1e6) })
  expect(check([rehashed(long)], 1)?.found.length).toBeLessThan(200)
})

test('words of the right link inside the metadata do not replace a wrong link', () => {
  const draft = { eventType: 'e', action: 'a', status: 's', actor: { type: 'system', id: 'x' } } as const
  const first = sealEntry(organizationId, chainStart, 1, at, draft)
  const link = {
    a: 1,
    organization_id: organizationId,
    prev_hash: first.hash,
    run_id: null,
    seq: 2,
    status: 's',
  }
  const nested = { ...draft, metadata: { zzz: link } }
  const elsewhere = sealEntry(organizationId, { seq: 1, hash: 'f'.repeat(64) }, 1, at, nested)
  expect(check([first, elsewhere], 1)).toMatchObject({ seq: 2, reason: 'link', found: 'f'.repeat(64) })
  expect(check([first, sealEntry(organizationId, first, 1, at, nested)], 1)).toBeNull()
})
