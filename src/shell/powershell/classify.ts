import { longest } from '../limits.ts'
import { isDynamic, isPlain, output, unknown } from '../marks.ts'
import type { Shell } from '../types.ts'
import {
  aliases,
  approvedVerb,
  isQuiet,
  isQuietType,
  readingVerb,
  runningMember,
  senders,
} from './cmdlets.ts'
import { Reader, type Sink } from './read.ts'
import { elsewhere, scanPowerShell } from './scan.ts'

/** Finds the effects of a PowerShell text. What the reader does not understand is a script, and searched for senders. */
export function readPowerShell(text: string, shell: Shell): void {
  if (text.length > longest) shell.note('script', 'the command is too long to read')
  if (text.length > longest) return scanPowerShell(text, shell)
  let isWhole = true
  const session = new Session(shell, () => {
    isWhole = false
  })
  try {
    new Reader(text, session).read()
  } catch {
    isWhole = false
  }
  if (isWhole) return
  shell.note('script', 'part of the command cannot be read with certainty')
  scanPowerShell(text, shell)
}

/** A path such as `\\host\share` on another machine; `\\.\` and `\\?\` are devices of this one. */
const remotePath =
  /\\\\[.?]\\UNC\\|(?:(?:^|[=:,;\s])\\\\|^\/\/)(?![.?\\/]|localhost[\\/]|127\.)[\w.\uFFF0\uFFF1-]+[\\/][\w\uFFF0\uFFF1$]/i

const remoteOption =
  /^-(tos\w*|froms\w*|comp\w*|cn|cims\w*|session|pssess\w*|hostname|vmname|connectionu\w*|sshconn\w*)$/i

class Session implements Sink {
  readonly #shell: Shell
  readonly #notWhole: () => void
  /** null if it has several values, or one that is not known. */
  readonly #values = new Map<string, string | null>()
  readonly #aliases = new Map<string, string>()
  readonly #functions = new Set<string>()
  readonly #texts: string[] = []

  constructor(shell: Shell, notWhole: () => void) {
    this.#shell = shell
    this.#notWhole = notWhole
  }

  unread(): void {
    this.#notWhole()
  }

  defines(name: string): void {
    this.#functions.add(name.toLowerCase().replace(/^(global|script|local|private):/, ''))
  }

  valueOf(name: string): string | undefined {
    if (/^(true|false|null)$/.test(name)) return ''
    return this.#values.get(name) ?? undefined
  }

  assign(name: string, value: string): void {
    const [drive = '', rest] = name.split(':')
    if (/^(function|alias)$/.test(drive)) this.#shell.note('script', 'it changes what a name runs')
    if (drive === 'env' && rest !== undefined) this.#shell.environment(rest.toUpperCase(), value)
    if (name === 'psdefaultparametervalues') this.#shell.note('script', 'it changes what a name runs')
    this.#values.set(name, isPlain(value) && !this.#values.has(name) ? value : null)
  }

  text(text: string, writes = false): void {
    if (writes) this.#shell.writes(text)
    if (this.#texts.length < 100) this.#texts.push(text)
    if (remotePath.test(text)) this.#shell.note('egress', elsewhere)
  }

  type(name: string, member: string | undefined): void {
    const plain = name.toLowerCase()
    const sender = [plain, plain.replace(/^system\./, ''), plain.split('.').at(-1) ?? ''].find((each) =>
      senders.has(each),
    )
    if (sender !== undefined) this.#shell.note('egress', `\`${sender}\` sends data out`)
    else if (!isQuietType(name)) this.#shell.note('script', 'it uses a type whose code is not known')
    // Its texts stand before it in the list: `[IO.File]::WriteAllText('Makefile', $text)`.
    if (/^(write|append|copy|move|replace|create)/i.test(member ?? ''))
      for (const text of this.#texts) this.#shell.writes(text)
    if (member !== undefined) this.member(member, isQuietType(name))
  }

  /** A method of the same name as one that runs code, such as `[guid]::Create`, is known by its type. */
  member(name: string, quiet = false): void {
    if (senders.has(name.toLowerCase())) this.#shell.note('egress', `\`${name}\` sends data out`)
    else if (!isPlain(name) || /^setenvironmentvariable$/i.test(name) || (runningMember.test(name) && !quiet))
      this.#shell.note('script', 'it runs code by a method')
  }

  command(words: readonly string[], piped: boolean, blocks: number): void {
    const [head = '', ...args] = words
    if (head === '' || head === '{}') return
    if (!isPlain(head)) return this.#shell.note('script', 'which program runs is only known when it runs')
    const name = head.toLowerCase().replace(/^[\w.]+\\(?=\w+-\w+$)/, '')
    const run = (as: string): void => this.#run(as, as === name ? head : as, args, piped, blocks)
    // Whether the function or alias is defined when the command runs is not followed, so the name itself counts too.
    const alias = this.#aliases.get(name)
    if (alias !== undefined) run(alias)
    if (this.#functions.has(name) || alias !== undefined)
      this.#shell.suspects('a name stands for a program that sends data out', () => run(name))
    else run(aliases.get(name) ?? name)
  }

  #run(name: string, head: string, args: readonly string[], piped: boolean, blocks: number): void {
    if (senders.has(name) || senders.has(name.replace(/\.exe$/, '')))
      return this.#shell.note('egress', `\`${name}\` sends data out`)
    const special = specials.get(name)
    if (special !== undefined) return special(args, this.#shell, this, blocks)
    const [, verb, noun] = /^([a-z]+)-([\w-]+)$/.exec(name) ?? []
    if (verb === undefined || noun === undefined || !approvedVerb.test(verb))
      return this.#native([head, ...args], piped)
    this.#cmdlet(name, verb, noun, args, piped)
  }

  #cmdlet(name: string, verb: string, noun: string, args: readonly string[], piped: boolean): void {
    if (args.some((arg) => remoteOption.test(arg.split(':')[0] ?? '')))
      this.#shell.note('egress', `\`${name}\` works on another machine`)
    if (args.some((arg) => /(^|[\\:])(alias|function):/i.test(arg)))
      this.#shell.note('script', 'it changes what a name runs')
    if (/^(set|add|out|copy|move|new|rename|tee|export)$/.test(verb))
      for (const arg of args) this.#shell.writes(arg)
    if (isQuiet(verb, noun)) return
    const given = piped || args.some((arg) => arg.includes(output))
    if (!readingVerb.test(verb) || given)
      this.#shell.note('script', 'it runs a command whose code is not known')
  }

  /** A program of the system, which the tables of Bash know. */
  #native([head = '', ...args]: readonly string[], piped: boolean): void {
    const path = head.replace(/^[a-z]:/i, '').replaceAll('\\', '/')
    const name = path.includes('/') ? path : path.replace(/\.(exe|cmd)$/i, '')
    if (/\.(bat|cmd|ps1|psm1)$/i.test(name)) this.#shell.note('script', 'it runs a script')
    this.#shell.run([name, ...args], { input: undefined, files: [], fed: piped })
  }

  rename(alias: string, name: string): void {
    if (isPlain(alias + name)) this.#aliases.set(alias.toLowerCase(), name.toLowerCase())
    else this.#shell.note('script', 'it changes what a name runs')
  }
}

type Special = (args: readonly string[], shell: Shell, session: Session, blocks: number) => void

/** The values of named parameters, then the words that belong to none. */
function parameters(args: readonly string[]): {
  named: ReadonlyMap<string, string>
  free: readonly string[]
} {
  const named = new Map<string, string>()
  const free: string[] = []
  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? ''
    if (!/^-[a-z]/i.test(arg)) free.push(arg)
    else if (args[at + 1] !== undefined && !/^-[a-z]/i.test(args[at + 1] ?? ''))
      named.set(arg.slice(1).toLowerCase(), args[++at] ?? '')
    else named.set(arg.slice(1).toLowerCase(), '')
  }
  return { named, free }
}

const runsText: Special = (args, shell, _session, blocks) => {
  const text = parameters(args).free[0] ?? parameters(args).named.get('command')
  if (text !== undefined && isPlain(text)) {
    shell.note('script', '`Invoke-Expression` runs a text')
    readPowerShell(text, shell)
  } else if (blocks === 0) shell.note('script', 'it runs a text that is only known when it runs')
}

/** A block that stands in the command was read; one in a variable, or a file, was not. */
const runsBlock: Special = (args, shell, _session, blocks) => {
  if (args.some((arg) => remoteOption.test(arg))) shell.note('egress', 'it works on another machine')
  const file = args.some((arg) => /^-(f|fi\w*|literalp\w*)$/i.test(arg))
  if (blocks === 0 || file) shell.note('script', 'it runs a block that is only known when it runs')
}

const startsProgram: Special = (args, shell) => {
  const { named, free } = parameters(args)
  const program = named.get('filepath') ?? free[0] ?? unknown
  const given = named.has('filepath') ? free : free.slice(1)
  shell.note('script', 'it starts a program')
  if (/^\w+:\/\//.test(program)) return shell.note('egress', 'it opens an address')
  shell.run([program.replaceAll('\\', '/'), ...(named.get('argumentlist') ?? '').split(/\s+/), ...given])
}

const renames: Special = (args, _shell, session) => {
  const { named, free } = parameters(args)
  session.rename(named.get('name') ?? free[0] ?? unknown, named.get('value') ?? free.at(-1) ?? unknown)
}

const makesObject: Special = (args, shell, session) => {
  const { named, free } = parameters(args)
  if (named.has('comobject') || named.has('com')) shell.note('script', 'it uses a program of the system')
  const type = named.get('typename') ?? free[0] ?? named.get('comobject') ?? unknown
  if (isDynamic(type)) shell.note('script', 'it uses a type whose code is not known')
  else session.type(type, undefined)
}

/** A module by its name is installed; one by a path is code of the project. */
const importsModule: Special = (args, shell) => {
  if (args.some((arg) => !isPlain(arg) || /[\\/]|\.psm?1$|\.psd1$|\.dll$/i.test(arg)))
    shell.note('script', 'it runs a local script')
}

const specials: ReadonlyMap<string, Special> = new Map(
  Object.entries<Special>({
    'invoke-expression': runsText,
    'invoke-command': runsBlock,
    'start-job': runsBlock,
    'start-threadjob': runsBlock,
    'measure-command': runsBlock,
    'foreach-object': (args, shell, session, blocks) => {
      if (blocks === 0 && args.some((arg) => isDynamic(arg))) runsBlock(args, shell, session, 0)
    },
    'start-process': startsProgram,
    'set-alias': renames,
    'new-alias': renames,
    'new-object': makesObject,
    'import-module': importsModule,
    'import-alias': (_, shell) => shell.note('script', 'it changes what a name runs'),
  }),
)
