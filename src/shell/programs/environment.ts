import { asCode, isDynamic, isPlain, output, unknown } from '../marks.ts'
import {
  buildTools,
  harmless,
  optionsFor,
  runsCode,
  runsCodeLike,
  runsProgram,
  searched,
  sent,
} from '../tables/environment.ts'
import type { Shell } from '../types.ts'

/** A variable that is set: whether it makes programs run code (design.md section 5, "exporting `GIT_SSH_COMMAND` ..."). */
export function readVariable(variable: string, value: string, shell: Shell): void {
  const name = variable.toUpperCase()
  const options = Object.hasOwn(optionsFor, name) ? optionsFor[name] : undefined
  // tar takes its archive, and options, from these as well.
  if (sent.test(name) && value.includes(output))
    shell.note('egress', 'a variable that is sent holds what a command prints')
  if (name === 'KUBECONFIG') shell.run(['kubectl', `--kubeconfig=${value}`])
  if (name === 'TAPE') shell.run(['tar', '-f', value])
  // Docker's client then works on the machine that is named.
  if (/^(DOCKER|CONTAINER)_HOST$/.test(name) && otherMachine(value))
    shell.note('egress', 'it makes containers those of another machine')
  if (buildTools.has(variable) && /\s/.test(value.trim())) sendsInBuilds(value, shell)
  if (name === 'TAR_OPTIONS') shell.run(['tar', ...value.split(/\s+/)])
  if (runsCode.has(name) || runsCodeLike.test(name)) {
    shell.note('script', 'it sets a variable by which programs run code')
    code(value, shell)
  } else if (runsProgram.has(name)) {
    if (harmless.has(value.trim())) return
    shell.note('script', 'it sets the program that shows or edits texts')
    code(value, shell)
  } else if (options !== undefined) {
    if (!options.test(value)) return
    shell.note('script', 'it sets options by which programs run code')
    if (name.startsWith('PS')) shell.code(value)
  } else if (searched.has(variable) && value.split(':').some(isAnywhere)) {
    shell.note('script', 'it changes where programs are looked for')
  }
}

/** An ssh with a key is how one fetches; everything else is read as the command it is. */
function code(value: string, shell: Shell): void {
  const fetches =
    /^ssh(\s|$)/.test(value.trim()) && !/proxy|command|`|\$\(|[;&|]/i.test(value) && isPlain(value)
  if (!fetches && shell.attempt(() => shell.code(asCode(value))) === 'egress')
    shell.note('egress', 'a variable makes programs run a command that sends data out')
}

/** Whether an address is that of a daemon somewhere else. */
export const otherMachine = (address: string): boolean =>
  /^(tcp|ssh|https?):\/\//.test(address) &&
  !/^\w+:\/\/([^/@]*@)?(localhost|127\.0\.0\.1|\[::1\])([:/]|$)/.test(address)

/** A compiler is any command: what builds are told to run counts when it sends. */
export function sendsInBuilds(value: string, shell: Shell): void {
  if (shell.attempt(() => shell.code(asCode(value))) === 'egress')
    shell.note('egress', 'a build is given a command that sends data out')
}

/** Folders that anybody, or this very command, can write to: relative ones and those for temporary files. */
function isAnywhere(folder: string): boolean {
  if (folder === unknown || (isDynamic(folder) && folder.startsWith('/'))) return false
  if (/(^|\/)(node_modules\/\.bin|\.?v?env\/bin|vendor\/bin)\/?$/.test(folder)) return false
  return !folder.startsWith('/') && !folder.startsWith('~')
    ? !isDynamic(folder)
    : /^\/(tmp|var\/tmp|dev\/shm)(\/|$)/.test(folder)
}
