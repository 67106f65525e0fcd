import { isTestOrBuild, isTestTool, scopedTools } from '../tables/tools.ts'
import type { Call, Program, Shell } from '../types.ts'
import { has, readOptions } from './options.ts'
import { sendingPath, starts, sendsByPath } from './paths.ts'
import { isJudgedTool } from './project-tools.ts'
import { mayRun } from './unknown.ts'

const valued =
  /^(--(prefix|workspace|filter|dir|cwd|registry|userconfig|globalconfig|cache|loglevel|otp|tag|access|mutex|use-yarnrc|modules-folder|reporter|package|node-options|script-shell|store-dir)|-w|-C|-F)$/

/** Subcommands of the managers themselves. Any other may be a package script. Publishing is found earlier. */
const own: Readonly<Record<string, RegExp>> = {
  npm: /^(publish|unpublish|deprecate|install|i|in|ins|add|ci|clean-install|install-test|it|cit|uninstall|un|remove|rm|r|unlink|update|up|upgrade|udpate|outdated|ls|list|ll|la|view|v|info|show|audit|pack|version|verison|config|c|get|set|cache|prune|dedupe|ddp|find-dupes|why|explain|search|s|find|doctor|root|prefix|bin|help|help-search|fund|query|pkg|ping|whoami|profile|repo|docs|home|bugs|issues|edit|link|ln|login|logout|adduser|add-user|token|team|org|hook|star|unstar|stars|completion|shrinkwrap|sbom|diff|dist-tag|dist-tags|owner|access|undeprecate|rebuild|rb|llms?)$/,
  yarn: /^(publish|install|add|remove|upgrade|upgrade-interactive|up|outdated|list|info|why|cache|config|audit|autoclean|check|global|import|init|licenses|link|unlink|login|logout|owner|pack|policies|set|tag|team|version|versions|workspaces|help|bin|dedupe|explain|constraints|plugin|rebuild|patch|patch-commit|search|stage|unplug|sdks|npm)$/,
  pnpm: /^(publish|install|i|add|remove|rm|uninstall|un|update|up|upgrade|outdated|list|ls|ll|la|why|audit|import|init|link|ln|unlink|dislink|fetch|prune|rebuild|rb|root|bin|store|cache|config|c|get|set|setup|env|licenses|patch|patch-commit|patch-remove|pack|dedupe|server|self-update|doctor|completion|help|approve-builds|ignored-builds|cat-file|cat-index|find-hash|deploy|install-test|it|catalog|view|info|search|login|whoami)$/,
}

/** Publishing is egress. Tests, builds and the subcommands in `own` are harmless, all others scripts. */
export const packageManager: Program = (args, shell, call, name) => {
  const path = sendingPath(name, args, valued)
  if (path !== undefined) return shell.note('egress', `\`${name} ${path}\` publishes a package`)
  const at = starts(args, valued)[0]
  if (at === undefined) return
  const [subcommand = '', ...rest] = args.slice(at)
  if (name === 'yarn' && subcommand === 'workspace') return packageManager(rest.slice(1), shell, call, name)
  if (name === 'yarn' && subcommand === 'workspaces' && /^(run|foreach)$/.test(rest[0] ?? '')) {
    const inner = rest.slice(1).filter((word) => !word.startsWith('-'))
    return packageManager(
      inner[0] === 'run' || rest[0] === 'foreach' ? inner : ['run', ...inner],
      shell,
      call,
      name,
    )
  }
  if (name === 'pnpm' && /^(recursive|multi|m)$/.test(subcommand))
    return packageManager(rest, shell, call, name)
  if (/^(test|t|tst|install-test|it)$/.test(subcommand)) return
  if (/^(exec|x|dlx)$/.test(subcommand) && !(name === 'yarn' && subcommand === 'x'))
    return runner(rest, shell, call, name)
  if (/^(run|run-script|rum|urn)$/.test(subcommand)) return packageScript(rest, shell, name)
  if (subcommand === 'node') return shell.note('script', `\`${name}\` runs code`)
  if (/^(create|init|innit)$/.test(subcommand)) {
    if (rest.some((word) => !word.startsWith('-'))) shell.note('script', `\`${name}\` runs a package`)
    return
  }
  if (own[name]?.test(subcommand) === true) return
  if (name === 'npm') shell.note('script', '`npm` runs a package script')
  else packageScript([subcommand, ...rest], shell, name, call)
}

/** `npm run name`. yarn and pnpm also start installed tools in this way: `yarn mocha`. */
function packageScript(rest: readonly string[], shell: Shell, name: string, call?: Call): void {
  const at = starts(rest, valued)[0]
  const script = at === undefined ? undefined : rest[at]
  if (script === undefined) return
  if (isTestOrBuild(script)) return
  if (call !== undefined && at !== undefined) return runner(rest.slice(at), shell, call, name)
  shell.note('script', `\`${name}\` runs a package script`)
}

const longOfRunners =
  'package= call= shell-auto-fallback= workspace= spec= from= python= with= with-requirements= index-url= pip-args= node-arg= group= extra= env-file= name= cwd= directory= project= refresh-package= verbose-level= bundle= yes no no-install quiet silent ignore-existing prefer-online prefer-offline offline no-project isolated refresh bun verbose frozen locked no-sync all-extras no-dev dev no-capture-output live-stream'
const runnerOptions = { options: `-yqsvp:c:n: ${longOfRunners}` }

const uvOptions = {
  options: `-qvnmsUhp:C:i:f:P:w: ${longOfRunners} config-setting= upgrade-package= find-links= default-index= index= extra-index-url= link-mode= exclude-newer= cache-dir= config-file= color= python-preference= python-platform= only-group= no-group= no-extra= resolution= prerelease= module script gui-script no-cache no-config no-env-file only-dev exact active no-editable all-groups all-packages managed-python no-managed-python`,
}
/** All other runners also start programs of the project's environment. */
const ofPackages = /^(npx|pnpx|bunx|uvx|dlx|npm|yarn|pnpm|bun|pipx)$/

/** A tool for tests or builds is harmless, any other a script. It is also read as a command, which may send. */
export const runner: Program = (args, shell, call, by) => {
  if (args.length === 1 && /^--(version|help)$/.test(args[0] ?? '')) return
  const read = readOptions(args, by === 'uv' ? uvOptions : runnerOptions)
  // Any word may then begin the command. The options of conda are not those of this table.
  if ((read.unsure || /^(conda|mamba|micromamba)$/.test(by)) && mayRun(args, shell, call))
    shell.note('egress', 'a package runner starts a program that sends data out')
  const code = read.options.find(([name]) => name === 'c' || name === 'call')?.[1]
  if (code !== undefined) {
    shell.note('script', 'a package runner runs a text')
    return shell.code(code)
  }
  // `uv run -m MODULE` is `python -m MODULE`. `uv run -s FILE` runs a file, whatever its name is.
  const module = by === 'uv' && has(read, 'm', 'module')
  const file = by === 'uv' && has(read, 's', 'script', 'gui-script')
  const [tool = '', ...rest] = module ? ['python', '-m', ...read.rest] : read.rest
  if (tool === '') return
  // `npx jest@29`, `npx @scope/name@1`. In `jest@npm:other`, the text after `@` is no version, but another package.
  const unversioned = tool.replace(/(?<=.)@[^/@:]*$/, '')
  const name = scopedTools.get(unversioned) ?? unversioned
  const effect = shell.attempt(() => shell.run([name.replace(/^@[^/]*\//, ''), ...rest], call))
  if (effect === 'egress') shell.note('egress', 'a package runner starts a program that sends data out')
  const judged = effect === 'write' && isJudgedTool(name, rest, !ofPackages.test(by))
  if (!read.unsure && !file && (isTestTool(name, rest) || judged)) return
  shell.note('script', 'a package runner starts a program')
}

/** `uv run`, `poetry run`, `bundle exec`. Other subcommands are harmless, unless the table of senders lists them. */
export const runnerBehind =
  (subcommands: readonly string[]): Program =>
  (args, shell, call, name) => {
    sendsByPath(shell, name, args, valued)
    for (const at of starts(args, valued)) {
      const rest = args.slice(at)
      const found = subcommands.find((subcommand) =>
        subcommand.split(' ').every((word, index) => rest[index] === word),
      )
      if (found !== undefined) return runner(rest.slice(found.split(' ').length), shell, call, name)
    }
  }

/** Options with a value: in `--tests '*UploadTest'`, the second word is no task. */
const taskOptions =
  /^(--tests|-x|--exclude-task|-p|--project-dir|-b|--build-file|-c|--settings-file|-I|--init-script|-g|--gradle-user-home|--console|--max-workers|-pl|--projects|-f|--file|-s|--settings|-t|-rf|--resume-from|-T|--threads|-P|--activate-profiles|-D|--define|-l|--log-file|-gs|-b)$/

/** Only tasks whose names mean a test or a build count as harmless. */
export const tasks: Program = (args, shell, _, name) => {
  sendsByPath(shell, name, args)
  const names = args.filter(
    (arg, at) => !arg.startsWith('-') && !arg.includes('=') && !taskOptions.test(args[at - 1] ?? ''),
  )
  if (args.some((arg) => /^(-I|--init-script)/.test(arg))) shell.note('script', `\`${name}\` runs a script`)
  if (
    names.some((task) =>
      /publish|upload|deploy|^jib$|(jib|fabric8|spring-boot):(build|push)(-image)?$|docker(file)?:?push/i.test(
        task,
      ),
    )
  )
    return shell.note('egress', `\`${name}\` publishes`)
  if (names.length === 0) {
    if (!args.some((arg) => /^(-T|-l|-t|--list|--tasks|--help|--version|-version|-v|--summary)$/.test(arg)))
      shell.note('script', `\`${name}\` runs a task`)
    return
  }
  const named = names.every(
    (task) => isTestOrBuild(task.split(':').at(-1) ?? '') || isTestOrBuild(task) || quietTasks.test(task),
  )
  if (!named) shell.note('script', `\`${name}\` runs a task`)
}
const quietTasks =
  /^:?([\w-]+:)*(clean|assemble\w*|compile\w*|package|verify|install|validate|initialize|process-\w+|site|dependencies|dependency:[\w-]+|tasks|help|properties|projects|wrapper|classes|testClasses|jar|bundle\w*|lint\w*|ktlint\w*|detekt|spotless\w*|test\w*|build\w*|check\w*|connected\w*Test|versions:[\w-]+|surefire:test|checkstyle:\w+|fmt|format)$/
