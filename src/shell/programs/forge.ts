import { asCode, isDynamic, unknown } from '../marks.ts'
import type { Program } from '../types.ts'
import { has, readOptions, valueOf } from './options.ts'
import { bySubcommand, starts } from './paths.ts'

/** Subcommands of GitHub's client that change nothing on GitHub. */
const reads: Readonly<Record<string, RegExp>> = {
  alias: /^(list|set|delete|import)$/,
  attestation: /^(verify|download|trusted-root)$/,
  auth: /./,
  browse: /./,
  cache: /^list$/,
  completion: /./,
  config: /./,
  extension: /^(list|install|search|upgrade|remove|browse)$/,
  gist: /^(list|view|clone)$/,
  'gpg-key': /^list$/,
  help: /./,
  issue: /^(list|ls|view|status|develop)$/,
  label: /^list$/,
  org: /^list$/,
  pr: /^(list|ls|view|status|diff|checks|checkout|co)$/,
  project: /^(list|view|field-list|item-list)$/,
  release: /^(list|ls|view|download|verify|verify-asset)$/,
  repo: /^(list|ls|view|clone|set-default|gitignore|license|read-file)$/,
  ruleset: /./,
  run: /^(list|ls|view|watch|download)$/,
  search: /./,
  secret: /^(list|ls)$/,
  'ssh-key': /^list$/,
  status: /./,
  variable: /^(list|ls|get)$/,
  version: /./,
  workflow: /^(list|ls|view)$/,
}
const bare = new Set(['browse', 'status', 'version', 'completion', 'help', 'auth', 'search', 'config'])

/** A subcommand that changes something on GitHub counts as egress. */
export const gh: Program = (args, shell) => {
  if (args.includes('--help') || args.length === 0 || args[0] === '--version') return
  const at = starts(args, /^(-R|--repo|--hostname)$/)[0] ?? args.length
  const [group = '', ...rest] = args.slice(at)
  if (group === 'api') return api(rest, shell)
  if (group === 'alias') aliased(rest, shell)
  if (group === 'codespace' || group === 'cs')
    return shell.note('egress', '`gh codespace` works on another machine')
  const pattern = Object.hasOwn(reads, group) ? reads[group] : undefined
  // An unknown subcommand may be an extension or an alias.
  if (pattern === undefined)
    return shell.note('script', '`gh` may have an extension or alias that runs anything')
  const words = starts(rest, /^(-R|--repo|--hostname)$/).map((index) => rest[index] ?? '')
  const verb = words[0] ?? ''
  if (bare.has(group) || verb === '' || words.some((word) => pattern.test(word))) return
  shell.note('egress', verb.includes(unknown) ? '`gh` may send data out' : '`gh` sends data out')
}

/** An alias can contain shell code, or come from a file. */
function aliased([verb = '', ...rest]: readonly string[], shell: Parameters<Program>[1]): void {
  if (verb === 'import') shell.note('script', '`gh` reads aliases that can run anything')
  if (verb !== 'set') return
  const [, text = ''] = rest.filter((word) => !/^-(-?\w+)+$/.test(word))
  if (!text.startsWith('!') && !rest.some((word) => /^(-s|--shell)$/.test(word)) && !isDynamic(text)) return
  shell.note('script', '`gh` is given an alias that runs a command')
  shell.suspects('`gh` is given an alias that sends data out', () =>
    shell.code(asCode(text.replace(/^!/, ''))),
  )
}

/** A request other than GET is egress, and any with `--input`. Without a method, a field makes it a POST. */
const api = (args: readonly string[], shell: Parameters<Program>[1]): void => {
  const read = readOptions(args, {
    options:
      '-if:F:X:H:q:t:p:d: field= raw-field= method= header= jq= template= input= data= cache= hostname= preview= include paginate silent slurp verbose',
    anywhere: true,
  })
  const method = valueOf(read, 'X', 'method')
  const sends = has(read, 'f', 'F', 'field', 'raw-field', 'input', 'd', 'data')
  if (method === undefined ? sends : method.toUpperCase() !== 'GET' || has(read, 'input'))
    shell.note('egress', 'a call of an API sends data out')
}

/** Clients of other forges read `api` and `alias` as `gh` does. */
export const forgeApi: Program = (args, shell, call, name) => {
  if (args[0] === 'api') api(args.slice(1), shell)
  if (args[0] === 'alias') aliased(args.slice(1), shell)
  bySubcommand(args, shell, call, name)
}

/** They deploy nothing. Any other word is a folder, which is deployed. */
const ownOfVercel =
  /^(alias|bisect|blob|build|certs|dev|dns|domains|env|git|help|init|inspect|install|integration|link|list|login|logout|logs|ls|open|project|projects|pull|remove|rm|rollback|secrets?|switch|target|teams|telemetry|unlink|whoami)$/

export const vercel: Program = (args, shell) => {
  if (args.some((arg) => /^--(version|help)$/.test(arg))) return
  const valued =
    /^(--(token|scope|local-config|global-config|cwd|name|env|build-env|meta|target)|-[tSAQebm])$/
  const verb = args.find((arg, at) => !arg.startsWith('-') && !valued.test(args[at - 1] ?? ''))
  if (verb === undefined || !ownOfVercel.test(verb)) return shell.note('egress', '`vercel` deploys')
  if (/^(env|secrets?)$/.test(verb) && args.some((arg) => /^(add|update)$/.test(arg)))
    shell.note('egress', '`vercel` keeps a secret')
}
