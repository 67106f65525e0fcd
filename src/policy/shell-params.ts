import { agentTool } from './agent-tools.ts'
import type { JsonObject } from './types.ts'

/*
 * What an approval of a shell's call covers beside the arguments. The service adds it to the call's parameters: `cwd`,
 * the folders in which the command may run, and `scripts`, the files that it runs.
 */

/** A file that a command runs. `sha256` is null if the content is not known, and `path` if the file was not found. */
export interface Script {
  /** The file as the command names it. */
  readonly word: string
  readonly path: string | null
  readonly sha256: string | null
}

export const isShellCall = (tool: string | null): boolean => agentTool(tool ?? '')?.isShell === true

/** Returns the scripts that the service has added to a shell's parameters. */
export const scriptsOf = ({ scripts }: JsonObject): readonly Script[] =>
  Array.isArray(scripts) ? (scripts as readonly Script[]) : []

/** Returns a shell's parameters as approvers read them: a list of its folders, and one sentence for each script. */
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

/** A script’s name as people read it. A part that is only known when the command runs is `[…]`. */
export const shownName = ({ word, path }: Script): string =>
  path === null ? word.replaceAll('${_}', '[…]') : word

function sentenceOf(script: Script): string {
  const { path, sha256 } = script
  const name = shownName(script)
  const file = path === null || path === name ? name : `${name}, the file ${path}`
  return `${file}: ${sha256 === null ? 'its content is not covered' : `SHA-256 ${sha256.slice(0, 12)}…`}`
}
