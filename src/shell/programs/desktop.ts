import { isDynamic } from '../marks.ts'
import { classifyPowerShell } from '../powershell.ts'
import type { Program } from '../types.ts'
import { has, readOptions, valueOf } from './options.ts'
import { bySubcommand } from './paths.ts'

const local = /^(localhost|127\.0\.0\.1|\[?::1\]?|\/.*|)$/

/** Reads the arguments of a browser. The browser sends a request to every address in the arguments. */
const browser: Program = (args, shell, _, name) => {
  if (args.some((arg) => /^(?!file:)\w+:\/\//i.test(arg)))
    shell.note('egress', `\`${name}\` opens an address`)
}

/**
 * Reads the arguments of `open`, `xdg-open` and similar. The system chooses the program that opens the file or address.
 */
const opener: Program = (args, shell) => {
  if (args.some((arg) => /^\w\w+:/.test(arg))) shell.note('script', 'it opens an address in another program')
  else if (
    args.some((arg) => /^-\w*a|\.(sh|command|app|desktop|workflow|terminal|scpt|py|jar)\/?$/.test(arg))
  )
    shell.note('script', 'it opens a program')
}

/**
 * Returns a function that reads the arguments of a program which can send data to another machine. An option of
 * `letters` or `long` names the machine. If no option names another machine, the program counts as harmless.
 */
const withHost =
  (letters: string, long: string): Program =>
  (args, shell, _, name) => {
    const read = readOptions(args, { values: letters, long, anywhere: true })
    const hosts = read.options.flatMap(([option, value]) =>
      letters.includes(option) || long.split(' ').includes(option) ? [value ?? ''] : [],
    )
    const host = (text: string): string =>
      text.replace(/^\w+:\/\/([^/@]*@)?/, '').replace(/(?<=^[^:]*):\d+(\/.*)?$|\/\d*$/, '')
    if (hosts.some((text) => !local.test(host(text))))
      shell.note('egress', `\`${name}\` sends to another machine`)
  }

/**
 * Reads the arguments of `pwsh`, `powershell` or `cmd` in a Bash command. The command counts as a script, or as egress
 * if the arguments send data out.
 */
const windows: Program = (args, shell, _, name) => {
  if (args.length === 1 && /^(--version|--help|-V|-h|-\?|\/\?)$/i.test(args[0] ?? '')) return
  shell.note('script', `\`${name}\` runs code`)
  const { kind, because } = classifyPowerShell(args.join(' '))
  if (kind === 'egress') shell.note('egress', because)
}

const names = (list: string, program: Program): [string, Program][] =>
  list.split(' ').map((name) => [name, program])

/**
 * Matches a host in a PostgreSQL connection string if the host is this machine. The host can be a name, an address or
 * the folder of a socket.
 */
const ownHost = String.raw`(?:localhost|127(?:\.\d{1,3}){3}|::1|\/[^\s,&']*)`
/** Matches a server in a PostgreSQL address if the server is this machine. The name and the port are both optional. */
const ownServer = String.raw`(?:localhost|127\.0\.0\.1)?(?::\d*)?`
/** Matches a PostgreSQL connection string with a server on another machine. The string may name several servers. */
const serverOf = new RegExp(
  String.raw`\bhost(?:addr)?\s*=(?!\s*${ownHost}(?:,${ownHost})*(?:[\s&]|$))` +
    String.raw`|^postgres(?:ql)?:\/\/(?!(?:[^/@]*@)?${ownServer}(?:,${ownServer})*(?:[/?]|$))`,
)

/**
 * The functions that read the arguments of programs which open addresses, print, mount folders, or use a server. Such
 * programs get the name of the server from an address or an option.
 */
export const desktop: ReadonlyMap<string, Program> = new Map([
  ...names(
    'firefox google-chrome google-chrome-stable chromium chromium-browser chrome brave brave-browser msedge microsoft-edge opera vivaldi epiphany konqueror falkon',
    browser,
  ),
  ...names(
    'xdg-open open sensible-browser x-www-browser www-browser wslview gnome-open kde-open exo-open',
    opener,
  ),
  ...names('gio', (args, shell, call, name) => {
    if (args[0] === 'open' || args[0] === 'launch') return opener(args.slice(1), shell, call, name)
    if (args.slice(1).some((arg) => /^(?!file|trash|recent|admin)\w+:\/\//.test(arg)))
      shell.note('egress', '`gio` works on another machine')
  }),
  ...names('mongorestore mysqlimport mongofiles', withHost('h', 'host uri')),
  ...names('pg_restore pgbench', (args, shell, call, name) => {
    withHost('h', 'host')(args, shell, call, name)
    if (args.some((arg) => serverOf.test(arg.replace(/^(--?\w+=|-d)/, ''))))
      shell.note('egress', `\`${name}\` sends to another machine`)
  }),
  ...names('unison rdiff-backup', (args, shell, _, name) => {
    if (args.some((arg) => /^(ssh|socket|rsh):\/\/|::/.test(arg)))
      shell.note('egress', `\`${name}\` copies to another machine`)
  }),
  ...names('redis-cli valkey-cli keydb-cli', withHost('hu', 'host uri')),
  ...names('lp lpr cancel lpadmin', withHost('hHv', 'host')),
  ...names('logger', withHost('n', 'server')),
  ...names('pwsh powershell cmd', windows),
  ...names('mount mount.nfs mount.cifs mount_nfs mount_smbfs', (args, shell) => {
    if (args.some((arg) => /^\/\/[^/]|^[\w.-]+:\//.test(arg)))
      shell.note('egress', '`mount` opens a folder of another machine')
  }),
  ...names('gpg gpg2', (args, shell) => {
    if (args.some((arg) => /^--send-keys?$/.test(arg))) shell.note('egress', '`gpg` sends keys')
    else if (
      args.some((arg) =>
        /^--((recv|receive|search|refresh|fetch)-keys?|locate-(external-)?keys?|auto-key-locate)$/.test(arg),
      ) &&
      args.some(isDynamic)
    )
      shell.note('egress', '`gpg` asks for a name that is only known when it runs')
  }),
  ...names('dc', (args, shell, call) => {
    const read = readOptions(args, { values: 'ef', long: 'expression file', flags: 'Vh' })
    for (const text of [valueOf(read, 'e', 'expression'), call.input]) runsAfter(text, shell)
  }),
  ...names('debugfs', (_, shell, call) => runsAfter(call.input, shell)),
  ...names('az', (args, shell, call, name) => {
    bySubcommand(args, shell, call, name)
    const read = readOptions(args.slice(1), { values: 'mbu', long: 'method body url', anywhere: true })
    if (args[0] !== 'rest') return
    if (has(read, 'b', 'body') || !/^get$/i.test(valueOf(read, 'm', 'method') ?? 'get'))
      shell.note('egress', '`az rest` sends data out')
  }),
  ...names('apt apt-get aptitude', (args, shell) => {
    const read = readOptions(args, { values: 'otca', long: 'option config-file', anywhere: true })
    for (const [option, value = ''] of read.options) {
      if (option !== 'o' && option !== 'option') continue
      const [name = '', ...code] = value.split('=')
      if (code.length === 0 || !/invoke|options|-hook|proxy-auto-?detect/i.test(name)) continue
      shell.note('script', '`apt` is told which program to run')
      shell.code(code.join('='))
    }
  }),
])

/** Reads the text after `!`, which some programs pass to a shell. */
function runsAfter(text: string | undefined, shell: Parameters<Program>[1]): void {
  for (const line of (text ?? '').split('\n')) {
    const code = /!(?![<>=])(.*)$/s.exec(line)?.[1]
    if (code === undefined || code.trim() === '') continue
    shell.note('script', 'a text after `!` is run by a shell')
    shell.code(code)
  }
}
