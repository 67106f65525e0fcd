import { asCode, output } from '../marks.ts'
import type { Program, Shell } from '../types.ts'
import { has, type OptionTable, readOptions, valueOf } from './options.ts'
import { sendingPath } from './paths.ts'

/** Subcommands that come with git. All others are aliases or third-party programs. */
const known = new Set(
  `add am annotate apply archive backfill bisect blame branch bugreport bundle cat-file check-attr check-ignore check-mailmap
  check-ref-format checkout checkout-index cherry cherry-pick citool clean clone column commit commit-graph commit-tree config
  count-objects credential credential-cache credential-store describe diagnose diff diff-files diff-index diff-pairs diff-tree
  difftool fast-export fast-import fetch fetch-pack filter-branch fmt-merge-msg for-each-ref for-each-repo format-patch fsck
  gc get-tar-commit-id grep gui hash-object help hook index-pack init init-db interpret-trailers last-modified lfs log ls-files
  ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base merge-file merge-index merge-one-file merge-tree mergetool
  mktag mktree multi-pack-index mv name-rev notes p4 pack-objects pack-redundant pack-refs patch-id prune prune-packed pull
  push quiltimport range-diff read-tree rebase receive-pack reflog refs remote repack replace replay request-pull rerere reset
  restore rev-list rev-parse revert rm send-email send-pack shortlog show show-branch show-index show-ref sparse-checkout
  stage stash status stripspace submodule subtree svn switch symbolic-ref tag unpack-file unpack-objects update-index
  update-ref update-server-info upload-archive upload-pack var verify-commit verify-pack verify-tag version whatchanged
  worktree write-tree`.split(/\s+/),
)

/** Settings that never make git run a program. */
const quietSetting =
  /^(user\.|author\.|committer\.|color\.|advice\.|column\.|init\.defaultbranch|core\.(quotepath|autocrlf|eol|safecrlf|filemode|abbrev|longpaths|ignorecase|symlinks|precomposeunicode|compression|bigfilethreshold|preloadindex)|commit\.(gpgsign|verbose|status|cleanup)|tag\.(gpgsign|sort)|push\.|pull\.|fetch\.(prune|parallel|recursesubmodules)|merge\.(conflictstyle|ff|renames|renamelimit)|rebase\.(autosquash|autostash|updaterefs)|diff\.(renames|renamelimit|algorithm|context|colormoved|mnemonicprefix|noprefix|wserrorhighlight|submodule)|log\.|blame\.|status\.|http\.(postbuffer|version|lowspeedlimit|lowspeedtime|sslverify|extraheader)|gc\.|pack\.|index\.|protocol\.(version|file\.allow)|clean\.safe\.directory|transfer\.|versionsort\.|grep\.|format\.|branch\.|feature\.|submodule\.recurse|lfs\.(activitytimeout|concurrenttransfers|locksverify)|interactive\.singlekey)/i

const global = {
  flags: 'pPhv',
  values: 'Cc',
  long: 'git-dir work-tree namespace super-prefix config-env exec-path attr-source list-cmds',
  longFlags:
    'paginate no-pager bare no-replace-objects no-lazy-fetch no-optional-locks no-advice literal-pathspecs glob-pathspecs noglob-pathspecs icase-pathspecs version help html-path man-path info-path',
}

interface Running {
  readonly subcommand: RegExp
  /**
   * The only letters in this table are those that take a value. Other letters need no entry: `readOptions` accepts the
   * unknown letter `i` before the known letter `x` in `rebase -ix code`.
   */
  readonly options: OptionTable
  /** The names of the options whose value git runs as a command. */
  readonly run: string
}

/** Subcommands that run the value of an option as a command. */
const commands: readonly Running[] = [
  {
    subcommand: /^(clone|ls-remote)$/,
    options: { values: 'obujc', long: 'upload-pack exec config' },
    run: 'u upload-pack exec',
  },
  {
    subcommand: /^(fetch|pull|fetch-pack|archive|submodule|remote)$/,
    options: { values: 'osXj', long: 'upload-pack exec' },
    run: 'upload-pack exec',
  },
  {
    subcommand: /^(push|send-pack)$/,
    options: { values: 'o', long: 'receive-pack exec' },
    run: 'receive-pack exec',
  },
  {
    subcommand: /^rebase$/,
    options: { values: 'xsXC', attached: 'S', long: 'exec' },
    run: 'x exec',
  },
  {
    subcommand: /^(difftool|mergetool)$/,
    options: { values: 'xtSGOUIl', attached: 'MCB', long: 'extcmd' },
    run: 'x extcmd',
  },
  {
    subcommand: /^filter-branch$/,
    options: {
      values: 'd',
      long: 'setup env-filter tree-filter index-filter parent-filter msg-filter commit-filter tag-name-filter subdirectory-filter',
    },
    run: 'setup env-filter tree-filter index-filter parent-filter msg-filter commit-filter tag-name-filter subdirectory-filter',
  },
  {
    subcommand: /^grep$/,
    options: { values: 'efABCm', attached: 'O', longFlags: 'open-files-in-pager' },
    run: 'O open-files-in-pager',
  },
]

/**
 * Reads the arguments of git. Finds subcommands that send data out, and every option or setting whose text git runs.
 */
export const git: Program = (args, shell, call) => {
  const read = readOptions(args, global)
  for (const [name, value] of read.options)
    if (name === 'c' || name === 'config-env') setting(value ?? '', name, shell)
  if (has(read, 'exec-path') && valueOf(read, 'exec-path') !== undefined)
    shell.note('script', '`git` looks for its programs elsewhere')
  const [subcommand = '', ...rest] = read.rest
  const path = sendingPath('git', read.unsure ? args : read.rest)
  if (path !== undefined) shell.note('egress', `\`git ${path}\` sends data out`)
  if (subcommand === '') return
  if (!known.has(subcommand)) shell.note('script', '`git` may have an alias that runs anything')
  const [verb = '', ...command] = afterFlags(rest)
  runs(subcommand, rest, shell)
  if (/^(clone|fetch|pull|ls-remote|submodule|remote|archive)$/.test(subcommand))
    addresses(subcommand, rest, shell)
  if (subcommand === 'lfs') addresses(verb, command, shell)
  if (subcommand === 'submodule' && rest.includes('foreach'))
    shell.code(afterFlags(rest.slice(rest.indexOf('foreach') + 1)).join(' '))
  if (subcommand === 'config') configured(rest, shell)
  if (subcommand === 'bisect' && verb === 'run') shell.run(command, call)
  if (subcommand === 'hook' && rest.includes('run')) shell.note('script', '`git` runs a hook')
  if (subcommand === 'for-each-repo') shell.note('script', '`git` runs a command in every repository')
}

const afterFlags = (words: readonly string[]): readonly string[] =>
  words.slice([...words.keys()].find((at) => words[at]?.startsWith('-') !== true) ?? words.length)

/** Settings whose values are sent to a server. */
const sentSetting =
  /^(http\.(.+\.)?(extraheader|useragent|proxy|cookiefile)|url\..+|remote\..+\.(url|proxy))$/i

/**
 * Settings with a value that git runs, or reads as a file of further settings. The list has no aliases, because a
 * subcommand that is an alias counts as a script when it is called.
 */
const runningSetting =
  /^(core\.(pager|editor|sshcommand|fsmonitor|hookspath|askpass|gitproxy|attributesfile)|pager\..+|credential\.(.+\.)?helper|diff\.external|(diff|filter|merge|difftool|mergetool|browser|man|guitool)\..+\.(textconv|command|cmd|path|clean|smudge|process|driver)|gpg\.(.+\.)?program|gpg\.ssh\.defaultkeycommand|sequence\.editor|interactive\.difffilter|include(if\..+)?\.path|uploadpack\.packobjectshook|remote\..+\.(uploadpack|receivepack|vcs)|protocol\.ext\.allow|sendemail\..*(cmd|server)|init\.templatedir)$/i
/** The values that do not count as scripts: common programs and helpers, as people write them in settings. */
const ownProgram =
  /^(store|cache|osxkeychain|manager(-core)?|libsecret|wincred|oauth|gh auth git-credential|!(\S*\/)?gh auth git-credential|vim?|nvim|nano|emacs|code --wait|less( -\w+)*|delta|diff-so-fancy|true|false|git-lfs \S+ -- %f|git-lfs filter-process|gpg2?|ssh)$/

const configuring: OptionTable = {
  flags: 'lez',
  values: 'ft',
  long: 'file blob type default comment value url',
  longFlags:
    'global system local worktree get get-all get-regexp get-urlmatch get-color get-colorbool list unset unset-all remove-section rename-section add replace-all append all regexp fixed-value bool int bool-or-int bool-or-str path expiry-date no-type null name-only show-origin show-scope show-names includes no-includes edit',
}
/** Options and verbs that show or remove settings. */
const showing =
  'l list get get-all get-regexp get-urlmatch get-color get-colorbool unset unset-all remove-section rename-section'.split(
    ' ',
  )

/**
 * Reads the arguments of `git config name value` and `git config set name value`. Options can stand before the name.
 */
function configured(words: readonly string[], shell: Shell): void {
  const first = readOptions(words, configuring)
  const [verb = ''] = first.rest
  if (has(first, ...showing) || showing.includes(verb)) return
  const { rest, unsure } = verb === 'set' ? readOptions(first.rest.slice(1), configuring) : first
  // After an unknown option, it is uncertain which word is the name of the setting, so every word is checked.
  for (const [at, name] of (first.unsure || unsure ? words : rest.slice(0, 1)).entries())
    saved(name, (first.unsure || unsure ? words : rest)[at + 1], shell)
}

function saved(name: string, value: string | undefined, shell: Shell): void {
  if (sentSetting.test(name) && `${name}${value ?? ''}`.includes(output))
    shell.note('egress', '`git` is given a setting that is sent and holds what a command prints')
  if (value === undefined || !runningSetting.test(name) || ownProgram.test(value)) return
  setting(`${name}=${value}`, 'c', shell)
}

/** Judges a setting, as in `-c name=value`. Its value can be a program that git runs. */
function setting(text: string, option: string, shell: Shell): void {
  const equals = text.indexOf('=')
  const [name, value] = equals < 0 ? [text, ''] : [text.slice(0, equals), text.slice(equals + 1)]
  if (sentSetting.test(name) && text.includes(output))
    shell.note('egress', '`git` is given a setting that is sent and holds what a command prints')
  if (quietSetting.test(name) && option === 'c') return
  const harmless =
    /^(core\.(pager|editor)|pager\.\w+|sequence\.editor)$/i.test(name) && /^(cat|true|:|false|)$/.test(value)
  if (harmless || (/^credential\.helper$/i.test(name) && value === '')) return
  shell.note('script', '`git` is given a setting that can run code')
  const alias = /^alias\./i.test(name)
  const code = alias ? (value.startsWith('!') ? value.slice(1) : '') : value.replace(/^!/, '')
  if (code !== '' && !/^ssh(\s|$)/.test(code)) sendsWhenRun(code, shell)
}

function sendsWhenRun(code: string, shell: Shell): void {
  if (shell.attempt(() => shell.code(asCode(code))) === 'egress')
    shell.note('egress', '`git` runs a command that sends data out')
}

function runs(subcommand: string, rest: readonly string[], shell: Shell): void {
  if (/^(clone|init|init-db)$/.test(subcommand) && rest.some((word) => /^--te[a-z]*(=.|$)/.test(word)))
    shell.note('script', '`git` copies hooks from a folder')
  const found = commands.find((each) => each.subcommand.test(subcommand))
  if (found === undefined) return
  const read = readOptions(rest, { ...found.options, anywhere: true })
  for (const [option, value = ''] of read.options) {
    if (found.run.split(' ').includes(option)) ranBy(value, shell, subcommand === 'rebase')
    // `git clone` also has an option `-c` for a setting.
    else if (option === 'c' || option === 'config') setting(value, 'c', shell)
  }
}

/**
 * Reads a text that git runs as a command. The text also counts as a script, unless `only` is true. `only` is true for
 * `rebase --exec`, which usually runs tests.
 */
function ranBy(code: string, shell: Shell, only = false): void {
  if (!only) shell.note('script', '`git` is told which program to run')
  shell.code(code)
}

/** Matches an address with a scheme, or an address in the form of ssh (`host:path`). */
const address = /:\/\/|^[^/:\s=-][^/:\s=]*:(?!\/\/)(?=[^:])/

/**
 * Reads addresses in arguments. An address can be a program that git runs (`ext::sh -c ...`), or it can contain the
 * output of a command.
 */
function addresses(subcommand: string, rest: readonly string[], shell: Shell): void {
  const asks = /^(fetch|pull|ls-remote)$/.test(subcommand)
  const explicit = asks && rest.some((word) => address.test(word))
  for (const [at, word] of rest.entries()) {
    // The value of `-o` is sent to the server. If an argument is the address of a server, the other arguments (names of
    // branches and tags) count as sent to this server.
    const option = asks && /^(-o|--server-o[a-z-]*)$/.test(rest[at - 1] ?? '')
    const attached = asks && /^(-o.|--server-o[a-z-]*=)/s.test(word)
    if (word.includes(output) && (option || attached || (explicit && !word.startsWith('-'))))
      shell.note('egress', '`git` sends what a command prints')
    if (word.startsWith('ext::')) {
      shell.note('script', '`git` is told which program to run')
      shell.code(word.slice(5).replaceAll(/%./g, ' '))
    }
    if (address.test(word) && word.includes(output))
      shell.note('egress', 'an address is made of what a command prints')
  }
}
