import { isDynamic, isUnknown, output } from '../marks.ts'
import { scanPowerShell } from '../powershell/scan.ts'
import { named, type Program, when } from '../types.ts'
import { has, readOptions, valueOf } from './options.ts'
import { bySubcommand } from './paths.ts'

const local = /^(localhost|127\.0\.0\.1|\[?::1\]?|\/.*|)$/

/** The system chooses the program that opens the file or address. */
const opener: Program = (args, shell) => {
  if (args.some((arg) => /^\w\w+:/.test(arg))) shell.note('script', 'it opens an address in another program')
  else if (
    args.some((arg) => /^-\w*a|\.(sh|command|app|desktop|workflow|terminal|scpt|py|jar)\/?$/.test(arg))
  )
    shell.note('script', 'it opens a program')
}

/** A program that sends only if one of these options names another machine. */
const withHost =
  (options: string): Program =>
  (args, shell, _, name) => {
    const names = options.split(/[-:= ]+/)
    const read = readOptions(args, { options, anywhere: true })
    const hosts = read.options.flatMap(([option, value]) => (names.includes(option) ? [value ?? ''] : []))
    const host = (text: string): string =>
      text.replace(/^\w+:\/\/([^/@]*@)?/, '').replace(/(?<=^[^:]*):\d+(\/.*)?$|\/\d*$/, '')
    for (const text of hosts)
      if ((isUnknown(text) && !text.includes(output)) || text.startsWith('-'))
        shell.note('script', `which machine \`${name}\` works on is only known when it runs`)
      else if (!local.test(host(text))) shell.note('egress', `\`${name}\` sends to another machine`)
  }

const windows: Program = (args, shell, _, name) => {
  if (args.length === 1 && /^(--version|--help|-V|-h|-\?|\/\?)$/i.test(args[0] ?? '')) return
  shell.note('script', `\`${name}\` runs code`)
  scanPowerShell(args.join(' '), shell)
}

/** A host in a PostgreSQL connection string that is this machine: a name, an address or the folder of a socket. */
const ownHost = String.raw`(?:localhost|127(?:\.\d{1,3}){3}|::1|\/[^\s,&']*)`
/** The name and the port of this machine's server are both optional. */
const ownServer = String.raw`(?:localhost|127\.0\.0\.1)?(?::\d*)?`
/** A PostgreSQL connection string with a server on another machine; it may name several. */
const serverOf = new RegExp(
  String.raw`\bhost(?:addr)?\s*=(?!\s*${ownHost}(?:,${ownHost})*(?:[\s&]|$))` +
    String.raw`|^postgres(?:ql)?:\/\/(?!(?:[^/@]*@)?${ownServer}(?:,${ownServer})*(?:[/?]|$))`,
)

/** Programs that open addresses, print, mount folders, or get the name of a server from an address or an option. */
export const desktop: ReadonlyMap<string, Program> = new Map([
  ...named(
    'firefox google-chrome google-chrome-stable chromium chromium-browser chrome brave brave-browser msedge microsoft-edge opera vivaldi epiphany konqueror falkon',
    when(/^(?!file:)\w+:\/\//i, 'egress', (name) => `\`${name}\` opens an address`),
  ),
  ...named(
    'xdg-open open sensible-browser x-www-browser www-browser wslview gnome-open kde-open exo-open',
    opener,
  ),
  ...named('gio', (args, shell, call, name) => {
    if (args[0] === 'open' || args[0] === 'launch') return opener(args.slice(1), shell, call, name)
    if (args.slice(1).some((arg) => /^(?!file|trash|recent|admin)\w+:\/\//.test(arg)))
      shell.note('egress', '`gio` works on another machine')
  }),
  ...named('mongorestore mysqlimport mongofiles', withHost('-h: host= uri=')),
  ...named('pg_restore pgbench', (args, shell, call, name) => {
    withHost('-h: host=')(args, shell, call, name)
    if (args.some((arg) => serverOf.test(arg.replace(/^(--?\w+=|-d)/, ''))))
      shell.note('egress', `\`${name}\` sends to another machine`)
  }),
  ...named(
    'unison rdiff-backup',
    when(/^(ssh|socket|rsh):\/\/|::/, 'egress', (name) => `\`${name}\` copies to another machine`),
  ),
  ...named('redis-cli valkey-cli keydb-cli', withHost('-h:u: host= uri=')),
  ...named('lp lpr cancel lpadmin', withHost('-h:H:v: host=')),
  ...named('logger', withHost('-n: server=')),
  ...named('pwsh powershell cmd', windows),
  ...named(
    'schtasks wmic forfiles sc msiexec pcalua installutil odbcconf',
    when(
      /^[-/](create|change|run|c|i|package|a|u)$|^(call|create|config)$|^\/node:/i,
      'script',
      (name) => `\`${name}\` runs a program`,
    ),
  ),
  ...named(
    'mount mount.nfs mount.cifs mount_nfs mount_smbfs',
    when(/^\/\/[^/]|^[\w.-]+:\//, 'egress', () => '`mount` opens a folder of another machine'),
  ),
  ...named('gpg gpg2', (args, shell) => {
    if (args.some((arg) => /^--send-keys?$/.test(arg))) shell.note('egress', '`gpg` sends keys')
    else if (
      args.some((arg) =>
        /^--((recv|receive|search|refresh|fetch)-keys?|locate-(external-)?keys?|auto-key-locate)$/.test(arg),
      ) &&
      args.some(isDynamic)
    )
      shell.note('egress', '`gpg` asks for a name that is only known when it runs')
  }),
  ...named('dc', (args, shell, call) => {
    const read = readOptions(args, { options: '-Vhe:f: expression= file=' })
    for (const text of [valueOf(read, 'e', 'expression'), call.input]) runsAfter(text, shell)
  }),
  ...named('debugfs', (_, shell, call) => runsAfter(call.input, shell)),
  ...named('az', (args, shell, call, name) => {
    bySubcommand(args, shell, call, name)
    const read = readOptions(args.slice(1), { options: '-m:b:u: method= body= url=', anywhere: true })
    if (args[0] !== 'rest') return
    if (has(read, 'b', 'body') || !/^get$/i.test(valueOf(read, 'm', 'method') ?? 'get'))
      shell.note('egress', '`az rest` sends data out')
  }),
  ...named('apt apt-get aptitude', (args, shell) => {
    const read = readOptions(args, { options: '-o:t:c:a: option= config-file=', anywhere: true })
    for (const [option, value = ''] of read.options) {
      if (option !== 'o' && option !== 'option') continue
      const [name = '', ...code] = value.split('=')
      if (code.length === 0 || !/invoke|options|-hook|proxy-auto-?detect/i.test(name)) continue
      shell.runsText('`apt` is told which program to run', code.join('='))
    }
  }),
])

/** Some programs pass the text after `!` to a shell. */
function runsAfter(text: string | undefined, shell: Parameters<Program>[1]): void {
  for (const line of (text ?? '').split('\n')) {
    const code = /!(?![<>=])(.*)$/s.exec(line)?.[1]
    if (code === undefined || code.trim() === '') continue
    shell.runsText('a text after `!` is run by a shell', code)
  }
}
