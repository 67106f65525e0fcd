import { interpreters, scriptFile, shells } from '../tables/interpreters.ts'
import { senders, sendingPaths, sendingPrograms, sendsExcept } from '../tables/senders.ts'
import { parallel, su, wrapper, wrappers, xargs } from './wrappers.ts'
import { isDynamic, isPlain, one, output, star, withoutUnknowns } from '../marks.ts'
import { type Call, type Program, type Shell, named } from '../types.ts'
import { awk } from './awk.ts'
import { buildTools } from './build-tools.ts'
import { builtins } from './builtins.ts'
import { desktop } from './desktop.ts'
import { cluster, container } from './containers.ts'
import { ed, emacs, pager, script, terminal } from './editors.ts'
import { fileTools } from './file-tools.ts'
import { forgeApi, gh, vercel } from './forge.ts'
import { installer, uvInstaller } from './fetchers.ts'
import { git } from './git.ts'
import { interpreter, shellProgram, sourced } from './interpreters.ts'
import { chain, chainNames } from './languages.ts'
import { launchers } from './launchers.ts'
import { packageManager, runner, runnerBehind, tasks } from './packages.ts'
import { bySubcommand, starts } from './paths.ts'
import { isInstalledTool, managesTests } from './project-tools.ts'
import { sed } from './sed.ts'
import { aws, backup, copier, copierBehind, gcloud, rsync, tar } from './copies.ts'
import { readCommandOptions } from './command-options.ts'
import {
  onlyFiles,
  opensAddresses,
  readAddresses,
  readBehindDashes,
  readCommandValues,
  readData,
  readGiven,
  readLaunched,
  readSenders,
} from './unknown.ts'
import { vim } from './vim.ts'

const sends: Program = (args, shell, _, name) => {
  if (args.length === 1 && /^(--version|--help|-V|-h|--manual|-version)$/.test(args[0] ?? '')) return
  shell.note('egress', `\`${name}\` sends data out`)
}

const sendsUnless: Program = (args, shell, call, name) => {
  const at = starts(args)[0] ?? -1
  const words = [args[at] ?? '', ...args.filter((arg) => arg.startsWith('-'))]
  if (!words.some((word) => sendsExcept.get(name)?.test(word))) sends(args, shell, call, name)
}

const each = (names: Iterable<string>, program: Program): [string, Program][] =>
  [...names].map((name) => [name, program])

/** If a name occurs several times, the last and most specific entry counts. */
const programs: ReadonlyMap<string, Program> = new Map([
  ...each(sendingPaths.keys(), bySubcommand),
  ...each(interpreters.keys(), interpreter),
  ...each(shells, shellProgram),
  ...each(sendingPrograms, sends),
  ...each(Object.keys(wrappers), wrapper),
  ...each(chainNames, chain),
  ...Object.entries(builtins),
  ...buildTools,
  ...fileTools,
  ...desktop,
  ...launchers,
  ...each(sendsExcept.keys(), sendsUnless),
  ...named('aliyun', copierBehind('oss')),
  ...named('source .', sourced),
  ...named('readarray', builtins['mapfile'] as Program),
  ...named('xargs', xargs),
  ...named('parallel sem', parallel),
  ...named('su runuser', su),
  ...named('git', git),
  ...named('yadm', (args, shell, call) => shell.run(['git', ...args], call)),
  ...named('pass chezmoi', (args, shell, call) => (args[0] === 'git' ? shell.run(args, call) : undefined)),
  ...named('ko', (args, shell, _, name) => {
    if (
      /^(build|publish|apply|create|resolve|run)$/.test(args[0] ?? '') &&
      !args.some((arg) => /^(-L|--local|--push=false)$/.test(arg))
    )
      shell.note('egress', `\`${name}\` pushes an image`)
  }),
  ...named('gh', gh),
  ...named('glab hub', forgeApi),
  ...named('vercel', vercel),
  ...named('npm yarn pnpm', packageManager),
  ...named('npx pnpx bunx uvx dlx', runner),
  ...named('uv', (...call) => {
    uvInstaller(...call)
    runnerBehind(['run', 'tool run', 'x'])(...call)
  }),
  ...named('pip pip3', installer),
  ...named('pipx conda mamba micromamba', runnerBehind(['run'])),
  ...named('poetry pipenv pdm hatch rye', runnerBehind(['run', 'shell'])),
  ...named('bundle', runnerBehind(['exec'])),
  ...named('corepack', (args, shell, call) => shell.run(args, call)),
  ...named('rustup', (args, shell, call) => (args[0] === 'run' ? shell.run(args.slice(2), call) : undefined)),
  ...named('mvn mvnw gradle gradlew', tasks),
  ...named('docker podman nerdctl docker-compose podman-compose', container),
  ...named('kubectl oc k3s', cluster),
  ...named('aws', aws),
  ...named('gcloud', gcloud),
  ...named('gsutil s5cmd rclone mc mcli coscli s3cmd b2 ossutil obsutil s4cmd', copier),
  ...named('rsync', rsync),
  ...named('borg', backup),
  ...named('tar bsdtar', tar),
  ...named('sed', sed),
  ...named('awk gawk mawk nawk', awk),
  ...named('vi vim nvim view gvim rvim rview vimdiff gvimdiff ex vim.tiny vim.basic vim.nox', vim),
  ...named('ed', ed),
  ...named('emacs emacsclient', emacs),
  ...named('less more most man', pager),
  ...named('tmux byobu screen', terminal),
  ...named('script', script),
])

/** Programs in the table of senders whose reader finds every program that they start. */
const readWhole: ReadonlySet<string> = new Set([
  ...chainNames,
  ...interpreters.keys(),
  ...'npm yarn pnpm mvn mvnw lerna nerdctl docker-compose kubectl oc'.split(' '),
])
/** Programs whose reader only knows some subcommands: they are also read like an unknown program. */
const partlyKnown: ReadonlySet<string> = new Set([
  ...[...sendingPaths.keys()].filter((name) => !readWhole.has(name)),
  ...sendsExcept.keys(),
  ...'aliyun coscli moon mage rushx foreman honcho devbox apptainer singularity modal'.split(' '),
])

/** A name that is a pattern (`cu?l`) and matches one of these counts as egress. */
const senderNames = [...senders, 'git', 'aws', 'gh', 'npm']

/** A program in any other folder is a script, but for tools of the project or user, `gradlew` and `mvnw`. */
const installed =
  /^(\/usr\/local(\/go)?|\/usr|\/opt\/homebrew|\/opt\/local|\/snap|\/run\/current-system\/sw|\/nix\/var\/nix\/profiles\/default)?\/s?bin\/$|^\/usr\/lib(exec)?\/git-core\/$/
export function runProgram(words: readonly string[], shell: Shell, call: Call): void {
  const [head = '', ...given] = words
  if (!isPlain(head)) return hiddenName(head, shell)
  // oxlint-disable-next-line no-control-regex
  const visible = head.replaceAll(/[^\u0021-\u007e]/g, '')
  if (visible !== head && !head.includes(' ')) {
    shell.note('script', 'the name of a program has characters that cannot be seen')
    if (visible !== '') runProgram([visible, ...given], shell, call)
    return
  }
  // In zsh, `=name` means the path of the program `name`.
  if (/^=./.test(head)) {
    shell.note('script', 'the name of a program is written as only some shells read it')
    return runProgram([head.slice(1), ...given], shell, call)
  }
  const slash = head.lastIndexOf('/') + 1
  const [folder, file] = [head.slice(0, slash), head.slice(slash)]
  const name = known(file)
  const args = withoutChannel(name, given)
  const build = /^(gradlew|mvnw)$/.test(file)
  if (folder !== '' && !installed.test(folder)) shell.script(head)
  if (folder !== '' && !installed.test(folder) && !build) {
    const tool = isInstalledTool(folder, name ?? file, args) || managesTests(head, args)
    if (!tool) shell.note('script', 'it runs a local program or script')
  } else if (scriptFile.test(file)) shell.note('script', 'it runs a script')
  const plain = name ?? file.toLowerCase().replace(/\.exe$/, '')
  shell.starts(plain)
  readWritten(plain, args, shell, call)
  if (name !== undefined) programs.get(name)?.(args, shell, call, name)
  // `git-push` is `git push`.
  else if (file.startsWith('git-')) programs.get('git')?.([file.slice(4), ...args], shell, call, 'git')
  if (args.length === 0 && !call.fed) return
  readCommandOptions(plain, args, shell)
  readGiven(plain, args, shell)
  if (opensAddresses(plain)) readAddresses(args, shell)
  if (onlyFiles(plain) || (name !== undefined && !partlyKnown.has(name))) return
  if (name !== undefined) readLaunched(args, shell, call)
  readBehindDashes(args, shell, call)
  readCommandValues(args, shell)
  // The last part of an address can look like a sender, as in `hg clone https://example.com/curl folder`.
  if (name === undefined || programs.get(name) === bySubcommand) readData(plain, args, shell, call)
  readSenders(plain, name === undefined ? args : args.filter((arg) => !arg.includes('://')), shell)
}

/** A word before the subcommand that chooses a version of the program: `cargo +nightly publish`, `gcloud beta run`. */
const channels: Readonly<Record<string, RegExp>> = {
  cargo: /^\+/,
  gcloud: /^(alpha|beta|preview)$/,
  sbt: /^[+~]+/,
}

function withoutChannel(name: string | undefined, args: readonly string[]): readonly string[] {
  const channel = name !== undefined && Object.hasOwn(channels, name) ? channels[name] : undefined
  if (channel === undefined) return args
  if (name === 'sbt') return args.map((arg) => arg.replace(channel, ''))
  const at = args.findIndex((arg, index) => index < 6 && channel.test(arg))
  return at < 0 ? args : args.toSpliced(at, 1)
}

const copiers: ReadonlySet<string> = new Set('cp mv ln install tee sponge dd rsync apply_patch'.split(' '))

/** What a program writes: its operands, or the files that a patch on its input names. */
function readWritten(name: string, args: readonly string[], shell: Shell, { input, fed }: Call): void {
  const edits =
    /^(sed|perl|awk|gawk|yq|ex|ed|vi|vim)$/.test(name) && args.some((arg) => /^-\w*i|^--in-?place/.test(arg))
  if (copiers.has(name) || edits)
    for (const arg of args) if (!arg.startsWith('-')) shell.writes(arg.replace(/^of=/, ''))
  const patches =
    name === 'patch' || name === 'apply_patch' || (name === 'git' && /^(apply|am)$/.test(args[0] ?? ''))
  if (!patches) return
  // The text of a patch names its files. Nobody knows those of a patch in a file.
  if (input === undefined && (fed || args.length > 0)) shell.writes(output)
  else for (const file of patched(input ?? args.join(' '))) shell.writes(file)
}

/** Files that a patch changes, in the form of `apply_patch` or of `diff -u`. */
export const patched = (text: string): readonly string[] =>
  [...text.matchAll(/^(?:\*\*\* (?:Add File|Update File|Move to): |\+\+\+ (?:b\/)?)([^\t\n\r]+)/gm)]
    .slice(0, 1_000)
    .map((match) => match[1] ?? '')

/** The name in the tables: `Python3.11.exe` becomes `python`, and `gsed`, as other systems name GNU's, `sed`. */
function known(file: string): string | undefined {
  // libwww-perl installs `lwp-request` under the names of methods. The program `head` is not one of them.
  if (/^(GET|HEAD|POST)$/.test(file)) return 'lwp-request'
  const name = file.toLowerCase().replace(/\.exe$/, '')
  if (programs.has(name)) return name
  const unversioned = name.replace(/-?\d+(\.\d+)*[a-z]?$/, '')
  if (unversioned !== name && programs.has(unversioned)) return unversioned
  // They run the program in their arguments: `qemu-arm program`.
  if (/^ld(-linux|-musl)?[\w-]*\.so(\.\d+)?$|^qemu-(?!img|nbd|io)\w+(-static)?$/.test(name)) return 'loader'
  return /^g(sed|tar|find|xargs|timeout|env|nohup|nice|stdbuf|make|split|sort)$/.test(name)
    ? name.slice(1)
    : undefined
}

function hiddenName(head: string, shell: Shell): void {
  shell.note('script', 'which program runs is only known when it runs')
  shell.script(head)
  if (isDynamic(head) || head.length > 200 || !(head.includes(star) || head.includes(one))) return
  const pattern = withoutUnknowns(head.slice(head.lastIndexOf('/') + 1))
  const sender = senderNames.find((name) => matches(pattern, name))
  if (sender !== undefined && /[a-z]/i.test(pattern))
    shell.note('egress', `a pattern stands for \`${sender}\``)
}

/** Whether a pattern with the marks `star` and `one` matches, in at most |pattern|·|name| steps. */
function matches(pattern: string, name: string): boolean {
  let [at, from, back, resume] = [0, 0, -1, 0]
  while (from < name.length) {
    if (pattern[at] === star) {
      back = at++
      resume = from
    } else if (pattern[at] === one || pattern[at]?.toLowerCase() === name[from]) {
      at++
      from++
    } else if (back >= 0) {
      at = back + 1
      from = ++resume
    } else return false
  }
  while (pattern[at] === star) at++
  return at === pattern.length
}
