import { agentTool } from './agent-tools.ts'
import type { JsonObject } from './types.ts'

/* What an approval covers beside the arguments: folders in which the command may run (`cwd`), files that it runs. */

/** `sha256` is null if the content is not known, and `path` if the file was not found. */
export interface Script {
  /** As the command names it. */
  readonly word: string
  readonly path: string | null
  readonly sha256: string | null
}

export const isShellCall = (tool: string | null): boolean => agentTool(tool ?? '')?.isShell === true

export const scriptsOf = ({ scripts }: JsonObject): readonly Script[] =>
  Array.isArray(scripts) ? (scripts as readonly Script[]) : []

/** As approvers read them: a list of folders, and one sentence for each script. */
export function shownOfShell(tool: string | null, params: JsonObject): JsonObject {
  if (!isShellCall(tool)) return params
  const { cwd } = params
  const folders = typeof cwd === 'object' && cwd !== null ? Object.values(cwd) : cwd
  const scripts = scriptsOf(params).map(sentenceOf)
  return {
    ...params,
    ...(folders === undefined ? {} : { cwd: folders }),
    ...(scripts.length === 0 ? {} : { scripts }),
  }
}

/** A part that is only known when the command runs is `[…]`. */
export const shownName = ({ word, path }: Script): string =>
  path === null ? word.replaceAll('${_}', '[…]') : word

function sentenceOf(script: Script): string {
  const { path, sha256 } = script
  const name = shownName(script)
  const file = path === null || path === name ? name : `${name}, the file ${path}`
  return `${file}: ${sha256 === null ? 'its content is not covered' : `SHA-256 ${sha256.slice(0, 12)}…`}`
}
