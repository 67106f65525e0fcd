import { asCode, output } from '../marks.ts'
import type { Program, Shell } from '../types.ts'
import { has, readOptions, valueOf } from './options.ts'
import { sendsByPath } from './paths.ts'

/** All other subcommands are aliases or third-party programs. */
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

const quietSetting =
  /^(user\.|author\.|committer\.|color\.|advice\.|column\.|init\.defaultbranch|core\.(quotepath|autocrlf|eol|safecrlf|filemode|abbrev|longpaths|ignorecase|symlinks|precomposeunicode|compression|bigfilethreshold|preloadindex)|commit\.(gpgsign|verbose|status|cleanup)|tag\.(gpgsign|sort)|push\.|pull\.|fetch\.(prune|parallel|recursesubmodules)|merge\.(conflictstyle|ff|renames|renamelimit)|rebase\.(autosquash|autostash|updaterefs)|diff\.(renames|renamelimit|algorithm|context|colormoved|mnemonicprefix|noprefix|wserrorhighlight|submodule)|log\.|blame\.|status\.|http\.(postbuffer|version|lowspeedlimit|lowspeedtime|sslverify|extraheader)|gc\.|pack\.|index\.|protocol\.(version|file\.allow)|clean\.safe\.directory|transfer\.|versionsort\.|grep\.|format\.|branch\.|feature\.|submodule\.recurse|lfs\.(activitytimeout|concurrenttransfers|locksverify)|interactive\.singlekey)/i

const global = {
  options:
    '-pPhvC:c: git-dir= work-tree= namespace= super-prefix= config-env= exec-path= attr-source= list-cmds= paginate no-pager bare no-replace-objects no-lazy-fetch no-optional-locks no-advice literal-pathspecs glob-pathspecs noglob-pathspecs icase-pathspecs version help html-path man-path info-path',
}

/** Subcommands that run the value of an option, which `run` names, as a command. */
interface Running {
  readonly subcommand: RegExp
  /** Only the letters that take a value: `readOptions` accepts the unknown `i` before the known `x` in `rebase -ix`. */
  readonly options: string
  readonly run: string
}

const filters =
  'setup env-filter tree-filter index-filter parent-filter msg-filter commit-filter tag-name-filter subdirectory-filter'
const commands: readonly Running[] = [
  {
    subcommand: /^(clone|ls-remote)$/,
    options: '-o:b:u:j:c: upload-pack= exec= config=',
    run: 'u upload-pack exec',
  },
  {
    subcommand: /^(fetch|pull|fetch-pack|archive|submodule|remote)$/,
    options: '-o:s:X:j: upload-pack= exec=',
    run: 'upload-pack exec',
  },
  { subcommand: /^(push|send-pack)$/, options: '-o: receive-pack= exec=', run: 'receive-pack exec' },
  { subcommand: /^rebase$/, options: '-x:s:X:C:S:: exec=', run: 'x exec' },
  { subcommand: /^(difftool|mergetool)$/, options: '-x:t:S:G:O:U:I:l:M::C::B:: extcmd=', run: 'x extcmd' },
  { subcommand: /^filter-branch$/, options: `-d: ${filters.replaceAll(/(?= |$)/g, '=')}`, run: filters },
  { subcommand: /^grep$/, options: '-e:f:A:B:C:m:O:: open-files-in-pager', run: 'O open-files-in-pager' },
]

export const git: Program = (args, shell, call) => {
  const read = readOptions(args, global)
  for (const [name, value] of read.options)
    if (name === 'c' || name === 'config-env') setting(value ?? '', name, shell)
  if (has(read, 'exec-path') && valueOf(read, 'exec-path') !== undefined)
    shell.note('script', '`git` looks for its programs elsewhere')
  const [subcommand = '', ...rest] = read.rest
  sendsByPath(shell, 'git', read.unsure ? args : read.rest)
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

const sentSetting =
  /^(http\.(.+\.)?(extraheader|useragent|proxy|cookiefile)|url\..+|remote\..+\.(url|proxy))$/i

/** Git runs the value, or reads it as a file of settings. Not aliases, which count as scripts when called. */
const runningSetting =
  /^(core\.(pager|editor|sshcommand|fsmonitor|hookspath|askpass|gitproxy|attributesfile)|pager\..+|credential\.(.+\.)?helper|diff\.external|(diff|filter|merge|difftool|mergetool|browser|man|guitool)\..+\.(textconv|command|cmd|path|clean|smudge|process|driver)|gpg\.(.+\.)?program|gpg\.ssh\.defaultkeycommand|sequence\.editor|interactive\.difffilter|include(if\..+)?\.path|uploadpack\.packobjectshook|remote\..+\.(uploadpack|receivepack|vcs)|protocol\.ext\.allow|sendemail\..*(cmd|server)|init\.templatedir)$/i
/** Common programs and helpers, as people write them in settings, count as no script. */
const ownProgram =
  /^(store|cache|osxkeychain|manager(-core)?|libsecret|wincred|oauth|gh auth git-credential|!(\S*\/)?gh auth git-credential|vim?|nvim|nano|emacs|code --wait|less( -\w+)*|delta|diff-so-fancy|true|false|git-lfs \S+ -- %f|git-lfs filter-process|gpg2?|ssh)$/

const configuring = {
  options:
    '-lezf:t: file= blob= type= default= comment= value= url= global system local worktree get get-all get-regexp get-urlmatch get-color get-colorbool list unset unset-all remove-section rename-section add replace-all append all regexp fixed-value bool int bool-or-int bool-or-str path expiry-date no-type null name-only show-origin show-scope show-names includes no-includes edit',
}
const showing =
  'l list get get-all get-regexp get-urlmatch get-color get-colorbool unset unset-all remove-section rename-section'.split(
    ' ',
  )

/** Reads `git config name value` and `git config set name value`. Options can stand before the name. */
function configured(words: readonly string[], shell: Shell): void {
  const first = readOptions(words, configuring)
  const [verb = ''] = first.rest
  if (has(first, ...showing) || showing.includes(verb)) return
  const { rest, unsure } = verb === 'set' ? readOptions(first.rest.slice(1), configuring) : first
  // After an unknown option, every word may be the name.
  for (const [at, name] of (first.unsure || unsure ? words : rest.slice(0, 1)).entries())
    saved(name, (first.unsure || unsure ? words : rest)[at + 1], shell)
}

function saved(name: string, value: string | undefined, shell: Shell): void {
  if (sentSetting.test(name) && `${name}${value ?? ''}`.includes(output))
    shell.note('egress', '`git` is given a setting that is sent and holds what a command prints')
  if (value === undefined || ownProgram.test(value)) return
  if (/^alias\./i.test(name)) shell.writes('.git/config')
  if (!runningSetting.test(name)) return
  // A later command of git runs it.
  shell.writes('.git/config')
  setting(`${name}=${value}`, 'c', shell)
}

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
  shell.suspects('`git` runs a command that sends data out', () => shell.code(asCode(code)))
}

function runs(subcommand: string, rest: readonly string[], shell: Shell): void {
  if (/^(clone|init|init-db)$/.test(subcommand) && rest.some((word) => /^--te[a-z]*(=.|$)/.test(word)))
    shell.note('script', '`git` copies hooks from a folder')
  const found = commands.find((each) => each.subcommand.test(subcommand))
  if (found === undefined) return
  const read = readOptions(rest, { options: found.options, anywhere: true })
  for (const [option, value = ''] of read.options) {
    if (found.run.split(' ').includes(option)) ranBy(value, shell, subcommand === 'rebase')
    // `git clone` also has an option `-c` for a setting.
    else if (option === 'c' || option === 'config') setting(value, 'c', shell)
  }
}

/** `only` is for `rebase --exec`, which usually runs tests and then counts as no script. */
function ranBy(code: string, shell: Shell, only = false): void {
  if (!only) shell.note('script', '`git` is told which program to run')
  shell.code(code)
}

/** An address with a scheme, or in the form of ssh (`host:path`). */
const address = /:\/\/|^[^/:\s=-][^/:\s=]*:(?!\/\/)(?=[^:])/

/** An address can be a program that git runs (`ext::sh -c ...`), or contain the output of a command. */
function addresses(subcommand: string, rest: readonly string[], shell: Shell): void {
  const asks = /^(fetch|pull|ls-remote)$/.test(subcommand)
  const explicit = asks && rest.some((word) => address.test(word))
  for (const [at, word] of rest.entries()) {
    // The value of `-o` is sent to the server, and so are names of branches and tags beside the address of a server.
    const option = asks && /^(-o|--server-o[a-z-]*)$/.test(rest[at - 1] ?? '')
    const attached = asks && /^(-o.|--server-o[a-z-]*=)/s.test(word)
    if (word.includes(output) && (option || attached || (explicit && !word.startsWith('-'))))
      shell.note('egress', '`git` sends what a command prints')
    if (word.startsWith('ext::'))
      shell.runsText('`git` is told which program to run', word.slice(5).replaceAll(/%./g, ' '))
    if (address.test(word) && word.includes(output))
      shell.note('egress', 'an address is made of what a command prints')
  }
}
