import { interpreters, shells } from '../tables/interpreters.ts'
import { senders, sendingPaths, sendingPrograms } from '../tables/senders.ts'
import { testSubcommands, testTools } from '../tables/tools.ts'
import { wrappers } from '../tables/wrappers.ts'
import { isDynamic, isPlain, one, star, withoutUnknowns } from '../marks.ts'
import type { Call, Program, Shell } from '../types.ts'
import { awk } from './awk.ts'
import { builtins } from './builtins.ts'
import { desktop } from './desktop.ts'
import { cluster, container } from './containers.ts'
import { ed, emacs, pager, script, terminal } from './editors.ts'
import { fd, find, lookup, rg } from './finders.ts'
import { forgeApi, gh } from './forge.ts'
import { installer } from './fetchers.ts'
import { git } from './git.ts'
import { interpreter, shellProgram, sourced } from './interpreters.ts'
import { chain, chainNames } from './languages.ts'
import { launchers } from './launchers.ts'
import { others } from './others.ts'
import { packageManager, runner, runnerBehind, tasks } from './packages.ts'
import { bySubcommand } from './paths.ts'
import { sed } from './sed.ts'
import { aws, backup, copier, gcloud, rsync, tar } from './stores.ts'
import { readRunning } from './running.ts'
import {
  onlyFiles,
  opensAddresses,
  readAddresses,
  readBehindDashes,
  readGiven,
  readSenders,
} from './unknown.ts'
import { vim } from './vim.ts'
import { parallel, su, wrapper, xargs } from './wrappers.ts'

/** A sender: always, but for a question about the program itself. */
const sends: Program = (args, shell, _, name) => {
  if (args.length === 1 && /^(--version|--help|-V|-h|--manual|-version)$/.test(args[0] ?? '')) return
  shell.note('egress', `\`${name}\` sends data out`)
}

const all = (names: string, program: Program): [string, Program][] =>
  names.split(' ').map((name) => [name, program])
const of = (names: Iterable<string>, program: Program): [string, Program][] =>
  [...names].map((name) => [name, program])

/** Every program we know, the more particular reader last. */
const programs: ReadonlyMap<string, Program> = new Map([
  ...of(sendingPaths.keys(), bySubcommand),
  ...of(interpreters.keys(), interpreter),
  ...of(shells, shellProgram),
  ...of(sendingPrograms, sends),
  ...of(Object.keys(wrappers), wrapper),
  ...of(chainNames, chain),
  ...Object.entries(builtins),
  ...Object.entries(others),
  ...desktop,
  ...launchers,
  ...all('source .', sourced),
  ...all('readarray', builtins['mapfile'] as Program),
  ...all('xargs', xargs),
  ...all('parallel sem', parallel),
  ...all('su runuser', su),
  ...all('git', git),
  ...all('gh', gh),
  ...all('glab hub', forgeApi),
  ...all('npm yarn pnpm', packageManager),
  ...all('npx pnpx bunx uvx dlx', runner),
  ...all('uv', runnerBehind(['run', 'tool run', 'x'])),
  ...all('pip pip3', installer),
  ...all('pipx', runnerBehind(['run'])),
  ...all('poetry pipenv pdm hatch rye', runnerBehind(['run', 'shell'])),
  ...all('bundle', runnerBehind(['exec'])),
  ...all('corepack', (args, shell, call) => shell.run(args, call)),
  ...all('rustup', (args, shell, call) => (args[0] === 'run' ? shell.run(args.slice(2), call) : undefined)),
  ...all('mvn mvnw gradle gradlew', tasks),
  ...all('docker podman nerdctl docker-compose podman-compose', container),
  ...all('kubectl oc k3s', cluster),
  ...all('aws', aws),
  ...all('gcloud', gcloud),
  ...all('gsutil s5cmd rclone mc mcli s3cmd b2 ossutil obsutil s4cmd', copier),
  ...all('rsync', rsync),
  ...all('borg', backup),
  ...all('tar bsdtar', tar),
  ...all('sed', sed),
  ...all('awk gawk mawk nawk', awk),
  ...all('find', find),
  ...all('fd fdfind', fd),
  ...all('rg', rg),
  ...all(
    'dig nslookup host drill kdig delv dog doggo nmap resolvectl systemd-resolve getent avahi-resolve ping ping6 traceroute tracepath mtr arping fping ssh-keyscan ntpdate sntp snmpget snmpwalk ldapsearch',
    lookup,
  ),
  ...all('vi vim nvim view gvim rvim rview vimdiff gvimdiff ex vim.tiny vim.basic vim.nox', vim),
  ...all('ed', ed),
  ...all('emacs emacsclient', emacs),
  ...all('less more most man', pager),
  ...all('tmux byobu screen', terminal),
  ...all('script', script),
])

/** Names that a pattern in the place of a command's name may stand for. */
const senderNames = [...senders, 'git', 'aws', 'gh', 'npm']

/** Folders of installed programs: what is there goes by its name. Everything else with a slash is a local program. */
const installed =
  /^(\/usr\/local|\/usr|\/opt\/homebrew|\/opt\/local|\/snap|\/run\/current-system\/sw|\/nix\/var\/nix\/profiles\/default)?\/s?bin\/$|^\/usr\/lib(exec)?\/git-core\/$/
/** Folders in which a project's tools are installed. */
const projects = /(^|\/)(node_modules\/\.bin|\.?v?env\/bin|vendor\/bin|\.venv\/Scripts)\/$/
const scriptFile =
  /\.(sh|bash|zsh|fish|ksh|csh|py|pyw|rb|pl|pm|js|mjs|cjs|ts|mts|php|lua|tcl|ps1|bat|cmd|command|run|jar|awk|r)$/i

/** Reads one command: its name decides who reads the rest. */
export function runProgram(words: readonly string[], shell: Shell, call: Call): void {
  const [head = '', ...args] = words
  if (!isPlain(head)) return hiddenName(head, shell)
  // oxlint-disable-next-line no-control-regex
  const visible = head.replaceAll(/[^\u0021-\u007e]/g, '')
  if (visible !== head && !head.includes(' ')) {
    shell.note('script', 'the name of a program has characters that cannot be seen')
    if (visible !== '') runProgram([visible, ...args], shell, call)
    return
  }
  // zsh: `=name` is the path of that program.
  if (/^=./.test(head)) {
    shell.note('script', 'the name of a program is written as only some shells read it')
    return runProgram([head.slice(1), ...args], shell, call)
  }
  const slash = head.lastIndexOf('/') + 1
  const [folder, file] = [head.slice(0, slash), head.slice(slash)]
  const name = known(file)
  const build = /^(gradlew|mvnw)$/.test(file)
  if (folder !== '' && !installed.test(folder) && !build) {
    const tool =
      projects.test(folder) &&
      (testTools.has(file) || testSubcommands.get(file)?.test(args[0] ?? '') === true)
    if (!tool) shell.note('script', 'it runs a local program or script')
  } else if (scriptFile.test(file)) shell.note('script', 'it runs a script')
  if (name !== undefined) programs.get(name)?.(args, shell, call, name)
  // `git-push` is `git push`.
  else if (file.startsWith('git-')) programs.get('git')?.([file.slice(4), ...args], shell, call, 'git')
  if (args.length === 0) return
  const plain = name ?? file.toLowerCase().replace(/\.exe$/, '')
  readRunning(plain, args, shell)
  readGiven(plain, args, shell)
  if (opensAddresses(plain)) readAddresses(args, shell)
  if (name !== undefined || onlyFiles(plain)) return
  readBehindDashes(args, shell, call)
  readSenders(plain, args, shell)
}

/** A program's name in the tables: without `.exe`, its version, or the `g` of GNU tools elsewhere; any case. */
function known(file: string): string | undefined {
  const name = file.toLowerCase().replace(/\.exe$/, '')
  if (programs.has(name)) return name
  const unversioned = name.replace(/-?\d+(\.\d+)*[a-z]?$/, '')
  if (unversioned !== name && programs.has(unversioned)) return unversioned
  // What starts programs for the system, or for another processor.
  if (/^ld(-linux|-musl)?[\w-]*\.so(\.\d+)?$|^qemu-(?!img|nbd|io)\w+(-static)?$/.test(name)) return 'loader'
  return /^g(sed|tar|find|xargs|timeout|env|nohup|nice|stdbuf|make|split|sort)$/.test(name)
    ? name.slice(1)
    : undefined
}

/** The name is only known when it runs. A pattern that could be a sender's name counts as that. */
function hiddenName(head: string, shell: Shell): void {
  shell.note('script', 'which program runs is only known when it runs')
  if (isDynamic(head) || head.length > 200 || !(head.includes(star) || head.includes(one))) return
  const pattern = withoutUnknowns(head.slice(head.lastIndexOf('/') + 1))
  const sender = senderNames.find((name) => matches(pattern, name))
  if (sender !== undefined && /[a-z]/i.test(pattern))
    shell.note('egress', `a pattern stands for \`${sender}\``)
}

/** Linear in pattern and name, so that no pattern is a trap. */
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
