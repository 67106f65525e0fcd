import { isTestOrBuild } from '../tables/tools.ts'
import type { Program, Shell } from '../types.ts'
import { bySubcommand, starts } from './paths.ts'

/*
 * Programs that run named tasks of a project. A task counts as a script, unless its name means a test or a build.
 */

const namedTasks: Program = (args, shell, _, name) => {
  if (args.some((arg) => /^(-l|--list|--summary|-T|--tasks|--version|--help|--dump|--show)$/.test(arg)))
    return
  const names = args.filter((arg) => !arg.startsWith('-') && !arg.includes('='))
  judge(names, shell, name)
}

function judge(names: readonly string[], shell: Shell, name: string): void {
  if (names.length === 0 || !names.every((task) => isTestOrBuild(task)))
    shell.note('script', `\`${name}\` runs a task`)
}

/** Reads the arguments of turbo. Tasks can stand after `run`. With `--api`, turbo sends its results to a server. */
const turbo: Program = (args, shell, call, name) => {
  if (args.some((arg) => /^--api(=|$)/.test(arg))) shell.note('egress', '`turbo` sends results to a server')
  namedTasks(
    args.filter((arg) => arg !== 'run'),
    shell,
    call,
    name,
  )
}

/** Reads the arguments of rushx, which runs a package script. */
const rushx: Program = (args, shell, _, name) => {
  const script = args.find((arg) => !arg.startsWith('-'))
  if (script !== undefined) judge([script], shell, name)
}

/** Subcommands of nx that run no target of a project. */
const ownOfNx =
  /^(graph|dep-graph|list|show|report|reset|format(:\w+)?|migrate|generate|g|add|init|connect|sync(:\w+)?|daemon|import|login|logout|repair|view-logs|mcp|watch|exec|release|help|completion|new|print-affected|affected:(graph|apps|libs))$/

/** Reads the arguments of nx: `nx build app`, `nx run app:build`, `nx affected -t build test`. */
const nx: Program = (args, shell, call, name) => {
  bySubcommand(args, shell, call, name)
  if (args.some((arg) => arg.startsWith('--run-migrations'))) shell.note('script', '`nx` runs migrations')
  const [verb, ...rest] = args.slice(starts(args)[0] ?? args.length)
  if (verb === undefined || ownOfNx.test(verb)) return
  if (verb === 'run') judge([rest.find((arg) => !arg.startsWith('-'))?.split(':')[1] ?? ''], shell, name)
  else if (/^(run-many|affected)$/.test(verb)) judge(targets(rest), shell, name)
  else judge([verb.replace(/^affected:/, '')], shell, name)
}

/**
 * Returns the values of `-t`, `--target` and `--targets`. A value is one word or several words, with or without commas.
 */
function targets(args: readonly string[]): string[] {
  let open = false
  return args.flatMap((arg) => {
    const value = /^(?:-t|--targets?)(?:=(.*))?$/s.exec(arg)
    open = value === null ? open && !arg.startsWith('-') : value[1] === undefined
    const list = value === null ? (open ? arg : '') : (value[1] ?? '')
    return list.split(',').filter((word) => word !== '')
  })
}

/** Reads the arguments of moon: `moon run app:build`. */
const moon: Program = (args, shell, _, name) => {
  const [verb = '', ...rest] = args.slice(starts(args)[0] ?? args.length)
  if (!/^(run|r|exec|x)$/.test(verb)) return
  const tasks = rest.slice(0, rest.includes('--') ? rest.indexOf('--') : rest.length)
  judge(
    tasks.filter((arg) => !arg.startsWith('-')).map((arg) => arg.split(':').at(-1) ?? ''),
    shell,
    name,
  )
}

export const taskRunners: ReadonlyMap<string, Program> = new Map([
  ...'just task invoke inv fab rake grunt gulp npm-run-all run-s run-p mage'
    .split(' ')
    .map((name): [string, Program] => [name, namedTasks]),
  ['turbo', turbo],
  ['rushx', rushx],
  ['nx', nx],
  ['moon', moon],
])
