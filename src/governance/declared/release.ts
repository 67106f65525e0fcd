import { actorOf, type Caller } from '../access/identity.ts'
import { runAs, type Acting } from '../access/recheck.ts'
import { DomainError } from '../errors.ts'
import type { Once } from '../idempotency.ts'
import { asWriterOf, keyOf, requireRights, type DeclaredKind } from './declared.ts'
import { readObjects, type Present } from './present.ts'
import { requireRights as requireChangeRights } from '../workflows/workflows.ts'
import { writeMarks } from './save.ts'

/** In one request. */
export const mostReleased = 200

export interface Released {
  readonly released: number
}

interface Named {
  readonly kind: DeclaredKind
  readonly name: string
}

/**
 * Gives objects back to people: the next application of the files takes them over again, unless they are taken out there.
 * What comes from no file is left alone. Throws `validation_error` for what does not exist, and
 * `insufficient_role` for a protected workflow, as its change does.
 */
export async function releaseObjects(
  context: Acting,
  caller: Caller,
  named: readonly Named[],
  once: Once | null,
): Promise<Released> {
  const kinds = named.map(({ kind }) => kind)
  requireRights(caller, kinds, 'writes')
  return runAs(context, asWriterOf(caller, kinds), 'org.change', async (tx, now) => {
    const rows = new Map((await readObjects(tx.trx, tx.organizationId)).map((row) => [keyOf(row), row]))
    const missing = named.flatMap((each, index) =>
      rows.has(keyOf(each))
        ? []
        : [{ path: `objects.${index}`, message: `there is no ${each.kind} \`${each.name}\`` }],
    )
    if (missing.length > 0)
      throw new DomainError('validation_error', `nothing was released: ${missing[0]?.message}`, missing)
    const found = [...new Set(named.map(keyOf))]
      .map((key) => rows.get(key) as Omit<Present, 'version'>)
      .filter(({ managed }) => managed !== null)
    const present = await now()
    for (const { kind, body } of found)
      if (kind === 'workflow') requireChangeRights({ protected: body['protected'] === true }, present)
    const released = { released: found.length }
    if (found.length > 0) {
      await writeMarks(
        tx,
        found.map(({ kind, name, id }) => ({ kind, name, id: id ?? '', mark: null })),
      )
      tx.policyChanged()
      tx.append({
        eventType: 'organization.released',
        action: 'release',
        actor: actorOf(caller),
        metadata: { kinds: [...new Set(found.map(({ kind }) => kind))], objects: found.map(keyOf) },
      })
    }
    await once?.markActed(tx.trx, released)
    return released
  })
}
