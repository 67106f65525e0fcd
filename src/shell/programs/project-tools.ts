import { isPlain } from '../marks.ts'
import { isTestTool, judgedPrograms, judgedTools, testTools } from '../tables/tools.ts'

/** Folders in which a project's tools are installed. */
const projects = /(^|\/)(node_modules\/\.bin|\.?v?env\/(bin|Scripts)|vendor\/bin)\/$/
/** Folders in which people install tools for themselves. */
const owned =
  /^(~|\/root|\/(home|Users)\/[^/.][^/]*)\/(\.cargo\/bin|go\/bin|\.local\/bin|\.bun\/bin|\.deno\/bin|\.volta\/bin|\.(pyenv|rbenv|asdf)\/shims)\/$/
/** The folder in which a Ruby or PHP project has scripts that start its tools, and the names of these scripts. */
const scripts = /^(\.\/)?bin\/$/
const scriptNames = /^(rails|rake|rspec|rubocop|cucumber|phpunit)$/

/**
 * Whether a program in this folder is a tool of the project or the user, and does not count as a script. The reader of
 * the tool still judges its arguments.
 */
export function isInstalledTool(folder: string, name: string, args: readonly string[]): boolean {
  if (scripts.test(folder) ? !scriptNames.test(name) : !projects.test(folder) && !owned.test(folder))
    return false
  return isTestTool(name, args.slice(0, 1)) || isJudgedTool(name, args, true)
}

const unversioned = (name: string): string => name.replace(/\d+(\.\d+)*$/, '')

/** Whether the table `judgedTools` lists the tool with this subcommand. */
function isJudged(name: string, args: readonly string[]): boolean {
  const subcommand = args.find((word) => !word.startsWith('-')) ?? ''
  return judgedTools.get(name)?.test(subcommand) === true
}

/**
 * Whether a runner may start a tool whose own reader finds no script and no egress. `local` is true if the runner
 * starts programs of the project's environment. It is false if the runner fetches a package with the name of the
 * program.
 */
export function isJudgedTool(name: string, args: readonly string[], local: boolean): boolean {
  if (name === 'cross-env') {
    const [tool = '', ...rest] = args.slice(args.findIndex((word) => !/^\w+=/.test(word)))
    return isTestTool(tool, rest) || isJudged(tool, rest) || /^(npm|yarn|pnpm)$/.test(tool)
  }
  return isJudged(name, args) || (local && judgedPrograms.has(unversioned(name)))
}

const toolFile =
  /^(\.\.?\/)*(?:node_modules\/\.bin|vendor\/bin|node_modules\/(?:\w[\w-]*)\/bin)\/([\w.-]+?)(\.[cm]?js)?$/
/** Whether a file is a test or build tool of the project, as in `node node_modules/.bin/jest`. */
export function isToolFile(path: string): boolean {
  const [, , file = ''] = toolFile.exec(path) ?? []
  const [, owner] = /node_modules\/(\w[\w-]*)\/bin\//.exec(path) ?? []
  return testTools.has(file) && (owner === undefined || owner === 'typescript' || testTools.has(owner))
}

/** Whether `manage.py` of a Django project only runs tests or checks. */
export function managesTests(script: string, [verb = '', ...args]: readonly string[]): boolean {
  return (
    /^(\.\/)?manage\.py$/.test(script) &&
    /^(test|check)$/.test(verb) &&
    !args.some((arg) => /^--(pythonpath|testrunner)/.test(arg) || !isPlain(arg))
  )
}
