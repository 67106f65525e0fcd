import { readSettings } from '../../policy/settings.ts'
import type { ManagedBy } from '../../db/schema/policy.ts'
import type { JsonObject } from '../../policy/types.ts'
import type { Reading } from '../context.ts'
import { pageOf, readCursor, type Page, type PageRequest } from '../page.ts'
import { keyOf, toolAndRole, type DeclaredKind } from './declared.ts'
import { readObjects } from './present.ts'

export interface ObjectView {
  readonly kind: DeclaredKind
  readonly managed_by: ManagedBy | null
  readonly [field: string]: unknown
}

/** As files declare them, by kind and name. */
export async function listObjects(
  { db }: Reading,
  organizationId: string,
  page: PageRequest,
): Promise<Page<ObjectView>> {
  const after = readCursor(page.cursor, /^[a-z_]+ [^\n\0]{1,400}$/)
  const rows = (await readObjects(db, organizationId))
    .map((row) => ({ ...row, key: keyOf(row) }))
    .filter(({ directory, key }) => !directory && (after === null || key > after))
    .toSorted((one, other) => (one.key < other.key ? -1 : 1))
    .slice(0, page.limit + 1)
  const definitions = await definitionsOf(
    { db },
    rows.flatMap(({ kind, id }) => (kind === 'workflow' && id !== null ? [id] : [])),
  )
  return pageOf(
    rows,
    page.limit,
    ({ key }) => key,
    ({ kind, name, id, body, managed }) => ({
      kind,
      ...fieldsOf(kind, name, body, definitions.get(id ?? '')),
      managed_by: managed,
    }),
  )
}

function fieldsOf(kind: DeclaredKind, name: string, body: JsonObject, definition: unknown): object {
  switch (kind) {
    case 'group':
      return { name, ...body }
    case 'organization':
      return changedSettings(body)
    case 'tool_policy':
    case 'role_override': {
      const { tool, role } = toolAndRole(name)
      return { tool_name: tool, ...(role === undefined ? {} : { role }), ...body }
    }
    case 'workflow': {
      const { digest: _, ...rest } = body
      return { slug: name, ...rest, definition }
    }
    default:
      return body
  }
}

/** Those that are not at their default. */
function changedSettings(stored: JsonObject): object {
  const usual = readSettings({}) as unknown as JsonObject
  return Object.fromEntries(
    Object.entries(readSettings(stored)).filter(
      ([name, value]) => JSON.stringify(value) !== JSON.stringify(usual[name]),
    ),
  )
}

async function definitionsOf({ db }: Reading, ids: readonly string[]): Promise<ReadonlyMap<string, unknown>> {
  if (ids.length === 0) return new Map()
  const rows = await db
    .selectFrom('workflows as w')
    .innerJoin('workflow_versions as v', (join) =>
      join.onRef('v.workflow_id', '=', 'w.id').onRef('v.version', '=', 'w.current_version'),
    )
    .select(['w.id', 'v.definition'])
    .where('w.id', 'in', ids)
    .execute()
  return new Map(rows.map(({ id, definition }) => [id, JSON.parse(definition) as unknown]))
}
