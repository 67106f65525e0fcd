import { catalog } from '../tools/index.ts'
import type { ToolDeclaration } from '../tools/kit/tool.ts'
import { pageOf, readCursor, type Page } from '../governance/page.ts'

interface PageQuery {
  readonly limit: number
  readonly cursor?: string | undefined
}

/** Returns one page of the catalogue's tools, sorted by name. */
export function pageOfTools<T>(
  { limit, cursor }: PageQuery,
  view: (declaration: ToolDeclaration) => T,
): Page<T> {
  const after = readCursor(cursor ?? null, /^[a-z][a-z0-9_]{0,99}$/) ?? ''
  const all: readonly ToolDeclaration[] = Object.values(catalog)
  const rest = all.filter(({ name }) => name > after).toSorted((a, b) => (a.name < b.name ? -1 : 1))
  return pageOf(rest, limit, ({ name }) => name, view)
}
