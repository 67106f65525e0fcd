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

/** Judges a variable that the command sets. Some variables make programs run code, such as `GIT_SSH_COMMAND`. */
export function readVariable(variable: string, value: string, shell: Shell): void {
  const name = variable.toUpperCase()
  const options = Object.hasOwn(optionsFor, name) ? optionsFor[name] : undefined
  if (sent.test(name) && value.includes(output))
    shell.note('egress', 'a variable that is sent holds what a command prints')
  if (name === 'KUBECONFIG') shell.run(['kubectl', `--kubeconfig=${value}`])
  // tar reads its archive from `TAPE`, and options from `TAR_OPTIONS`.
  if (name === 'TAPE') shell.run(['tar', '-f', value])
  // With these variables, Docker's client works on the machine that the value names.
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

/**
 * Reads the value of a variable as a command. A plain `ssh` command is not read, because people often set such a
 * command for fetching: `GIT_SSH_COMMAND='ssh -i key'`.
 */
function code(value: string, shell: Shell): void {
  const fetches =
    /^ssh(\s|$)/.test(value.trim()) && !/proxy|command|`|\$\(|[;&|]/i.test(value) && isPlain(value)
  if (!fetches && shell.attempt(() => shell.code(asCode(value))) === 'egress')
    shell.note('egress', 'a variable makes programs run a command that sends data out')
}

/** Whether the address of a daemon names another machine. */
export const otherMachine = (address: string): boolean =>
  /^(tcp|ssh|https?):\/\//.test(address) &&
  !/^\w+:\/\/([^/@]*@)?(localhost|127\.0\.0\.1|\[::1\])([:/]|$)/.test(address)

/**
 * Reads the value of a variable such as `CC`, from which a build takes a command. Builds often set such variables, so
 * the command never counts as a script. The command counts as egress if it sends data out.
 */
export function sendsInBuilds(value: string, shell: Shell): void {
  if (shell.attempt(() => shell.code(asCode(value))) === 'egress')
    shell.note('egress', 'a build is given a command that sends data out')
}

/**
 * Whether other people, or this command itself, may have put programs into the folder. Relative folders and temporary
 * folders count. Folders of installed packages, such as `node_modules/.bin`, do not count.
 */
function isAnywhere(folder: string): boolean {
  if (folder === unknown || (isDynamic(folder) && folder.startsWith('/'))) return false
  if (/(^|\/)(node_modules\/\.bin|\.?v?env\/bin|vendor\/bin)\/?$/.test(folder)) return false
  return !folder.startsWith('/') && !folder.startsWith('~')
    ? !isDynamic(folder)
    : /^\/(tmp|var\/tmp|dev\/shm)(\/|$)/.test(folder)
}
