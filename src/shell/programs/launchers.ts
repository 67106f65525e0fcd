import type { Call, Program, Shell } from '../types.ts'
import { has, readOptions, valueOf } from './options.ts'
import { sendingPath, starts } from './paths.ts'
import { mayRun } from './unknown.ts'
import { suspectEverything } from './wrappers.ts'
import { fileTools } from '../tables/command-options.ts'
import { isTestOrBuild } from '../tables/tools.ts'

/**
 * Reads the arguments of terminals. A terminal starts a shell, or runs the command after `-e`, `--` or another option.
 */
const window: Program = (args, shell, call, name) => {
  if (args.length === 1 && /^--?(version|help|[vVh])$/.test(args[0] ?? '')) return
  shell.note('script', `\`${name}\` starts a shell or a program`)
  const values = args.map((arg) => /^--?\w[\w-]*=(.*)$/s.exec(arg)?.[1] ?? arg)
  if (mayRun(values, shell, call)) shell.note('egress', `\`${name}\` starts a program that sends data out`)
}

/** A word that version managers accept as the name of a version. `node` is also the name of a program. */
const version = /^(v?\d[\d.x]*|(lts|node|iojs|latest|stable|system|default|current)([/@-].*)?)$/
/** Programs that people start with a version manager. No version has such a name. */
const started = /^(npm|npx|yarn|pnpm|corepack|make)$/

/** Reads the arguments of version managers: `pyenv exec command`, `nvm exec 20 command`, `n exec 20 command`. */
const versioned: Program = (args, shell, call, name) => {
  const at = starts(args)[0]
  const verb = at === undefined ? '' : (args[at] ?? '')
  if (at === undefined || !/^(exec|run|use|as)$/.test(verb)) return
  const rest = args.slice(at + 1)
  if (verb === 'exec') return chosen(rest, shell, call, /^(nvm|fnm|n|nodist)$/.test(name))
  // The verbs `run` and `as` start the chosen version of the interpreter, which runs a script or its standard input.
  // `use` only chooses a version, but in `n` it does the same as `run`.
  if ((name === 'n' && rest.length > 0) || verb !== 'use') shell.note('script', 'it runs a local script')
}

/**
 * Reads the command after `exec`. The first word may be a version, which can have any name (`nvm alias name 20`). The
 * first word may also be the program. So a command is read from each word that can be the program.
 */
function chosen(rest: readonly string[], shell: Shell, call: Call, named: boolean): void {
  for (const start of starts(rest)) {
    let from = start
    for (; from < rest.length; from += 1) {
      const word = rest[from] ?? ''
      if (word.startsWith('-')) continue
      shell.run(rest.slice(from), call)
      const alias = named && from === start && !started.test(word) && !fileTools.has(word)
      if (!version.test(word) && !alias) break
    }
  }
}

/** Reads the arguments of lerna. `exec` runs a command in every package, and `run` runs a package script. */
const lerna: Program = (args, shell, call, name) => {
  const path = sendingPath(name, args)
  if (path !== undefined) shell.note('egress', `\`${name} ${path}\` sends data out`)
  const [verb = '', ...rest] = args.slice(starts(args)[0] ?? args.length)
  const words = rest.filter((word) => !word.startsWith('-'))
  // `lerna version` also pushes the commit and the tags that it makes.
  if (
    verb === 'version' &&
    !rest.some((word) => /^--(no-push|no-git-tag-version|push=false|help)$/.test(word))
  )
    shell.note('egress', '`lerna version` pushes')
  if (verb === 'run' && !isTestOrBuild(words[0] ?? '')) shell.note('script', '`lerna` runs a package script')
  if (verb !== 'exec') return
  if (mayRun(rest, shell, call)) shell.note('egress', '`lerna` starts a program that sends data out')
  const dashes = rest.indexOf('--')
  shell.code((dashes < 0 ? words : rest.slice(dashes + 1)).join(' '))
}

/**
 * Reads the arguments of programs that run the command after a verb: `rr record command`, `machinectl shell host
 * command`.
 */
const behindVerb =
  (verbs: RegExp): Program =>
  (args, shell, call, name) => {
    const at = args.findIndex((arg) => !arg.startsWith('-'))
    if (at < 0 || !verbs.test(args[at] ?? '')) return
    const rest = args.slice(at + 1)
    if (mayRun(rest, shell, call)) shell.note('egress', `\`${name}\` starts a program that sends data out`)
    shell.run(
      rest.filter(
        (arg, index) => !arg.startsWith('-') || index > rest.findIndex((each) => !each.startsWith('-')),
      ),
      call,
    )
  }

/** Reads the arguments of execlineb, which runs the commands of a file, or the text of `-c`. */
const execline: Program = (args, shell, call) => {
  shell.note('script', '`execlineb` runs a script')
  const read = readOptions(args, { values: 'cs', flags: 'qpPwS0123456789' })
  const code = valueOf(read, 'c')
  for (const text of [code, call.input])
    if (
      text !== undefined &&
      mayRun(
        text.split(/\s+/).filter((word) => !/^[{}]?$/.test(word)),
        shell,
        call,
      )
    )
      shell.note('egress', '`execlineb` runs a program that sends data out')
}

/**
 * Reads the arguments of entr. When files change, entr runs its arguments as a command. With `-s`, entr runs its
 * arguments as shell code.
 */
const entr: Program = (args, shell, call) => {
  const read = readOptions(args, { flags: 'acdnprsxz' })
  if (read.unsure) suspectEverything(args, shell)
  if (has(read, 's')) shell.code(read.rest.join(' '))
  else if (read.rest.length > 0) shell.run(read.rest, call)
}

/** Reads the arguments of fzf and skim. Both programs run commands for previews and for keys. */
const finder: Program = (args, shell, _, name) => {
  for (const [at, arg] of args.entries()) {
    const [, option = arg, attached] = /^(--[\w-]+)=(.*)$/s.exec(arg) ?? []
    const value = attached ?? args[at + 1] ?? ''
    const codes = /^(--preview|--cmd|-c)$/.test(option)
      ? [value]
      : option === '--bind'
        ? [...value.matchAll(/(?:execute|become|reload|transform|preview)[\w-]*[^\w\s-](.*)/gs)].map(
            ([, code = '']) => code.replace(/[\])}>~]$/, ''),
          )
        : []
    for (const code of codes) {
      shell.note('script', `\`${name}\` is told which program to run`)
      shell.code(code)
    }
  }
}

/** Reads the arguments of watchexec. When files change, watchexec runs its arguments as shell code. */
const watchexec: Program = (args, shell) => {
  const at = args.findIndex(
    (arg, index) =>
      !arg.startsWith('-') &&
      !/^-(w|e|i|f|d|s|-watch|-exts|-ignore|-filter|-debounce|-signal)$/.test(args[index - 1] ?? ''),
  )
  if (at >= 0) shell.code(args.slice(at).join(' '))
}

/** Reads `ip netns exec NAME command` and `ip vrf exec NAME command`. */
const ip: Program = (args, shell, call) => {
  const at = args.indexOf('exec')
  if ((args.includes('netns') || args.includes('vrf')) && at >= 0) shell.run(args.slice(at + 2), call)
}

/** Records the effect `egress` if one of the words starts a command that sends data out. */
function suspectSenders(args: readonly string[], shell: Shell): void {
  if (args.slice(0, 12).some((_, at) => shell.attempt(() => shell.run(args.slice(at))) === 'egress'))
    shell.note('egress', 'it starts a program that sends data out')
}

/** Reads `perf stat command` and similar. */
const perf: Program = (args, shell, call) => {
  const at = args.indexOf('--')
  if (!/^(stat|record|trace|bench)$/.test(args[0] ?? '')) return
  if (at < 0) suspectSenders(args.slice(1), shell)
  shell.run(at >= 0 ? args.slice(at + 1) : args.slice(1).filter((arg) => !arg.startsWith('-')), call)
}

/** Reads `jobs -x command`. */
const jobs: Program = (args, shell, call) => {
  const at = args.indexOf('-x')
  if (at >= 0) shell.run(args.slice(at + 1), call)
}

const names = (list: string, program: Program): [string, Program][] =>
  list.split(' ').map((name) => [name, program])

/** Programs that start another program in a way that `tables/wrappers.ts` cannot describe. */
export const launchers: ReadonlyMap<string, Program> = new Map([
  ...names(
    'xterm uxterm lxterm rxvt urxvt konsole alacritty kitty gnome-terminal xfce4-terminal mate-terminal lxterminal qterminal terminator tilix st foot footclient wezterm ghostty sakura termite eterm aterm x-terminal-emulator cool-retro-term yakuake terminology wt wt.exe kgx ptyxis',
    window,
  ),
  ...names('pyenv rbenv nodenv goenv jenv plenv phpenv pyenv-win nvm fnm n nodist sdk', versioned),
  ...names('lerna', lerna),
  ...names('rr', behindVerb(/^(record|replay)$/)),
  ...names('machinectl', behindVerb(/^(shell|run)$/)),
  ...names('uftrace samply', behindVerb(/^(record|live)$/)),
  ...names('nsys', behindVerb(/^(profile|launch|start)$/)),
  ...names('execlineb', execline),
  ...names('entr', entr),
  ...names('watchexec', watchexec),
  ...names('ip', ip),
  ...names('perf', perf),
  ...names('jobs', jobs),
  ...names('fzf sk', finder),
])
