import { catalog } from '../../tools/index.ts'
import type { IntegrationDeclaration } from '../../tools/kit/integration.ts'
import type { ToolDeclaration } from '../../tools/kit/tool.ts'

const tools: readonly ToolDeclaration[] = Object.values(catalog)

/**
 * Returns the tools of an integration that need more rights than `granted` contains. `granted` is null if the server
 * named no rights. In this case, returns no tools.
 */
export function lackingTools(
  { name, grant }: Pick<IntegrationDeclaration, 'name' | 'grant'>,
  granted: readonly string[] | null,
): string[] {
  if (grant === undefined || granted === null) return []
  const own = tools.filter(({ connection }) => connection === name)
  return own.map((tool) => tool.name).filter((tool) => grant.missingScopes(tool, granted).length > 0)
}
