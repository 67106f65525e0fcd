import { type Call, type Program, type Shell, named } from '../types.ts'
import { has, readOptions, valueOf } from './options.ts'
import { starts, sendsByPath } from './paths.ts'
import { mayRun } from './unknown.ts'
import { startsSender, suspectEverything } from './wrappers.ts'
import { fileTools } from './command-options.ts'
import { isTestOrBuild } from '../tables/tools.ts'

/** A terminal starts a shell, or runs the command after `-e`, `--` or another option. */
const window: Program = (args, shell, call, name) => {
  if (args.length === 1 && /^--?(version|help|[vVh])$/.test(args[0] ?? '')) return
  shell.note('script', `\`${name}\` starts a shell or a program`)
  const values = args.map((arg) => /^--?\w[\w-]*=(.*)$/s.exec(arg)?.[1] ?? arg)
  if (mayRun(values, shell, call)) shell.note('egress', `\`${name}\` starts a program that sends data out`)
}

/** The name of a version, as version managers accept it. `node` is also the name of a program. */
const version = /^(v?\d[\d.x]*|(lts|node|iojs|latest|stable|system|default|current)([/@-].*)?)$/
/** Programs that people start with a version manager. No version has such a name. */
const started = /^(npm|npx|yarn|pnpm|corepack|make)$/

/** Version managers: `pyenv exec command`, `nvm exec 20 command`, `n exec 20 command`. */
const versioned: Program = (args, shell, call, name) => {
  const at = starts(args)[0]
  const verb = at === undefined ? '' : (args[at] ?? '')
  if (at === undefined || !/^(exec|run|use|as)$/.test(verb)) return
  const rest = args.slice(at + 1)
  if (verb === 'exec') return chosen(rest, shell, call, /^(nvm|fnm|n|nodist)$/.test(name))
  // `run` and `as` start an interpreter, which runs a script or its standard input. `use` does the same in `n` alone.
  if ((name === 'n' && rest.length > 0) || verb !== 'use') shell.note('script', 'it runs a local script')
}

/** A version can have any name (`nvm alias name 20`), so each word that can be the program begins a command. */
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

/** `exec` runs a command in every package, and `run` a package script. */
const lerna: Program = (args, shell, call, name) => {
  sendsByPath(shell, name, args)
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

/** The command follows a verb: `rr record command`, `machinectl shell host command`. */
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

const execline: Program = (args, shell, call) => {
  shell.note('script', '`execlineb` runs a script')
  const read = readOptions(args, { options: '-qpPwS0123456789c:s:' })
  const code = valueOf(read, 'c')
  for (const text of [code, call.input])
    if (
      mayRun(
        (text ?? '').split(/\s+/).filter((word) => !/^[{}]?$/.test(word)),
        shell,
        call,
      )
    )
      shell.note('egress', '`execlineb` runs a program that sends data out')
}

/** When files change, entr runs its arguments as a command, or with `-s` as shell code. */
const entr: Program = (args, shell, call) => {
  const read = readOptions(args, { options: '-acdnprsxz' })
  if (read.unsure) suspectEverything(args, shell)
  if (has(read, 's')) shell.code(read.rest.join(' '))
  else if (read.rest.length > 0) shell.run(read.rest, call)
}

/** Both programs run commands for previews and for keys. */
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
    for (const code of codes) shell.runsText(`\`${name}\` is told which program to run`, code)
  }
}

/** When files change, watchexec runs its arguments as shell code. */
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

const perf: Program = ([verb = '', ...rest], shell, call) => {
  if (!/^(stat|record|trace|bench)$/.test(verb)) return
  const at = rest.indexOf('--')
  if (at < 0 && startsSender(rest.slice(0, 12), rest, shell))
    shell.note('egress', 'it starts a program that sends data out')
  shell.run(at >= 0 ? rest.slice(at + 1) : rest.filter((arg) => !arg.startsWith('-')), call)
}

const jobs: Program = (args, shell, call) => {
  const at = args.indexOf('-x')
  if (at >= 0) shell.run(args.slice(at + 1), call)
}

/** Programs that start another in a way that the table of wrappers cannot describe. */
export const launchers: ReadonlyMap<string, Program> = new Map([
  ...named(
    'xterm uxterm lxterm rxvt urxvt konsole alacritty kitty gnome-terminal xfce4-terminal mate-terminal lxterminal qterminal terminator tilix st foot footclient wezterm ghostty sakura termite eterm aterm x-terminal-emulator cool-retro-term yakuake terminology wt wt.exe kgx ptyxis',
    window,
  ),
  ...named('pyenv rbenv nodenv goenv jenv plenv phpenv pyenv-win nvm fnm n nodist sdk', versioned),
  ...named('lerna', lerna),
  ...named('rr', behindVerb(/^(record|replay)$/)),
  ...named('machinectl', behindVerb(/^(shell|run)$/)),
  ...named('uftrace samply', behindVerb(/^(record|live)$/)),
  ...named('nsys', behindVerb(/^(profile|launch|start)$/)),
  ...named('execlineb', execline),
  ...named('entr', entr),
  ...named('watchexec', watchexec),
  ...named('ip', ip),
  ...named('perf', perf),
  ...named('jobs', jobs),
  ...named('fzf sk', finder),
])
