import { isPlain } from '../marks.ts'
import { isTestTool, judgedPrograms, judgedTools, testTools } from '../tables/tools.ts'

/** Folders in which a project's tools are installed. */
const projects = /(^|\/)(node_modules\/\.bin|\.?v?env\/(bin|Scripts)|vendor\/bin)\/$/
/** Folders in which people install tools for themselves. */
const owned =
  /^(~|\/root|\/(home|Users)\/[^/.][^/]*)\/(\.cargo\/bin|go\/bin|\.local\/bin|\.bun\/bin|\.deno\/bin|\.volta\/bin|\.(pyenv|rbenv|asdf)\/shims)\/$/
/** A Ruby or PHP project starts its tools with such scripts. */
const scripts = /^(\.\/)?bin\/$/
const scriptNames = /^(rails|rake|rspec|rubocop|cucumber|phpunit)$/

/** Whether it counts as no script for its folder. The tool's reader still judges its arguments. */
export function isInstalledTool(folder: string, name: string, args: readonly string[]): boolean {
  if (scripts.test(folder) ? !scriptNames.test(name) : !projects.test(folder) && !owned.test(folder))
    return false
  return isTestTool(name, args.slice(0, 1)) || isJudgedTool(name, args, true)
}

const unversioned = (name: string): string => name.replace(/\d+(\.\d+)*$/, '')

function isJudged(name: string, args: readonly string[]): boolean {
  const subcommand = args.find((word) => !word.startsWith('-')) ?? ''
  return judgedTools.get(name)?.test(subcommand) === true
}

/**
 * Whether a runner may start a tool whose own reader finds no script and no egress. A runner that is not `local`
 * fetches a package of that name instead of starting a program of the project's environment.
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
/** As in `node node_modules/.bin/jest`. */
export function isToolFile(path: string): boolean {
  const [, , file = ''] = toolFile.exec(path) ?? []
  const [, owner] = /node_modules\/(\w[\w-]*)\/bin\//.exec(path) ?? []
  return testTools.has(file) && (owner === undefined || owner === 'typescript' || testTools.has(owner))
}

export function managesTests(script: string, [verb = '', ...args]: readonly string[]): boolean {
  return (
    /^(\.\/)?manage\.py$/.test(script) &&
    /^(test|check)$/.test(verb) &&
    !args.some((arg) => /^--(pythonpath|testrunner)/.test(arg) || !isPlain(arg))
  )
}
