import { type CatalogueName, nearestNames } from './tool-names.ts'

/**
 * Names of the parameters of each tool that the catalogue declares; a call with any other is refused. Kept equal to the
 * declarations by test/catalog. A tool that is not here may have any.
 */
export const toolParams: { readonly [Name in CatalogueName]?: readonly string[] } = {
  file_read: ['path'],
  memory_get: ['key'],
  memory_set: ['key', 'value'],
  mail_send: ['to', 'subject', 'text', 'html', 'cc', 'bcc'],
}

const byTool: ReadonlyMap<string, readonly string[]> = new Map(Object.entries(toolParams))

/**
 * What is wrong with a condition's path in a rule for these tools, or null. Where each of them is a tool whose parameters
 * are known, one must have the parameter that the path begins with: all calls would answer the condition alike. A glob or
 * a tool of agents may have any parameter.
 */
export function paramIssue(tools: readonly string[], path: string): string | null {
  const [param = ''] = path.split('.')
  const known = tools.map((tool) => byTool.get(tool))
  if (param === '*' || known.some((names) => names === undefined || names.includes(param))) return null
  const names = [...new Set(known.flatMap((each) => each ?? []))]
  const near = nearestNames(param, names)
  const hint = near.length > 0 ? `did you mean ${quoted(near, 'or')}` : `there is ${quoted(names, 'and')}`
  return `${quoted([...new Set(tools)], 'or')} has no parameter \`${param}\`: ${hint}`
}

function quoted(names: readonly string[], word: string): string {
  const all = names.map((name) => `\`${name}\``)
  const last = all.pop() ?? ''
  return all.length === 0 ? last : `${all.join(', ')} ${word} ${last}`
}
