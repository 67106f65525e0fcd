import { asCode, isDynamic, isPlain, output, unknown } from '../marks.ts'
import { type Shell, list } from '../types.ts'

/* Variables by which programs run others, or read code from elsewhere: the command no longer shows what runs. */

/** The value is a command, a library or a file of code. */
const runsCode: ReadonlySet<string> = new Set(
  list(`
    BASH_ENV ENV ZDOTDIR PROMPT_COMMAND SHELLOPTS BASHOPTS BASH_LOADABLES_PATH
    LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES DYLD_FORCE_FLAT_NAMESPACE GCONV_PATH
    GIT_SSH GIT_SSH_COMMAND GIT_PROXY_COMMAND GIT_EXTERNAL_DIFF GIT_DIFFTOOL_EXTCMD GIT_ASKPASS SSH_ASKPASS SUDO_ASKPASS GIT_EXEC_PATH
    GIT_TEMPLATE_DIR GIT_CONFIG GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM
    GIT_ALTERNATE_OBJECT_DIRECTORIES
    RSYNC_RSH RSYNC_CONNECT_PROG CVS_RSH SVN_SSH HGRCPATH HG_SSH TAR_OPTIONS RIPGREP_CONFIG_PATH LESSOPEN LESSCLOSE
    FZF_DEFAULT_COMMAND FZF_CTRL_T_COMMAND PERL5OPT PERL5DB RUBYOPT PYTHONSTARTUP PYTHONBREAKPOINT
    RUSTC RUSTDOC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER CARGO_BUILD_RUSTC CARGO_BUILD_RUSTDOC CARGO_BUILD_RUSTC_WRAPPER
    CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER PYTEST_PLUGINS VIMINIT GVIMINIT EXINIT
    NPM_CONFIG_SCRIPT_SHELL NPM_CONFIG_NODE_OPTIONS NPM_CONFIG_GIT NPM_CONFIG_ONLOAD_SCRIPT
    OPENSSL_CONF OPENSSL_ENGINES OPENSSL_MODULES KUBECTL_EXTERNAL_DIFF HELM_PLUGINS SKIM_DEFAULT_COMMAND
    DOCKER_HOST_COMMAND PIP_CONFIG_FILE CURL_HOME WGETRC COMMAND_NOT_FOUND_HANDLE`),
)

/** A part of each name varies: `GIT_CONFIG_KEY_0`, `BASH_FUNC_ls%%`, `CARGO_TARGET_X_RUNNER`. */
const runsCodeLike = /^(GIT_CONFIG_(KEY|VALUE)_|BASH_FUNC_|CARGO_TARGET_\w+_RUNNER$)/

/** The value is a program that shows or edits text. */
const runsProgram: ReadonlySet<string> = new Set(
  list(`
    PAGER GIT_PAGER MANPAGER SYSTEMD_PAGER AWS_PAGER GH_PAGER BAT_PAGER DELTA_PAGER PSQL_PAGER GLAB_PAGER
    EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR SUDO_EDITOR SYSTEMD_EDITOR KUBE_EDITOR SVN_EDITOR HGEDITOR FCEDIT GH_EDITOR
    BROWSER GH_BROWSER GIT_MERGE_AUTOEDIT_COMMAND`),
)
/** Well-known values, which are no script. `true` and `:` are editors for which no program waits. */
const harmless: ReadonlySet<string> = new Set(['', 'cat', 'true', ':', 'vi', 'vim', 'nvim', 'nano', 'emacs'])

/** They name a linker, or a library that the compiler loads. */
const rustc = /\blinker\s*=|codegen-backend|linker-plugin-lto=.*\/|link-args?=\S*(-B|fuse-ld=\S*\/)|(^|\s)@/

/** Options of a program. A value that loads or runs code counts as a script. */
const optionsFor: Readonly<Record<string, RegExp>> = {
  NODE_OPTIONS:
    /(^|\s)(-r|--(require|import|loader|experimental-loader|eval|env-file|inspect|snapshot-blob))\b/,
  JAVA_TOOL_OPTIONS: /-agent|-javaagent|-Xbootclasspath|@/,
  _JAVA_OPTIONS: /-agent|-javaagent|-Xbootclasspath|@/,
  JDK_JAVA_OPTIONS: /-agent|-javaagent|-Xbootclasspath|@/,
  MAVEN_OPTS: /-agent|-javaagent|-Xbootclasspath/,
  GRADLE_OPTS: /-agent|-javaagent|-Xbootclasspath/,
  GOFLAGS: /-(toolexec|exec|vettool|overlay)/,
  MAKEFLAGS: /eval|SHELL|-f/,
  GNUMAKEFLAGS: /eval|SHELL|-f/,
  // A prompt runs its substitutions. `set -x` shows PS4.
  PS0: /\$\(|`|\$\{/,
  PS1: /\$\(|`/,
  PS2: /\$\(|`/,
  PS4: /\$\(|`/,
  LESS: /\+!|\+&|--lesskey/,
  MANOPT: /-\w*[PHCB]|--(pa|ht|co)/,
  RUSTFLAGS: rustc,
  RUSTDOCFLAGS: rustc,
  CARGO_ENCODED_RUSTFLAGS: rustc,
  CARGO_BUILD_RUSTFLAGS: rustc,
  CARGO_BUILD_RUSTDOCFLAGS: rustc,
  PYTEST_ADDOPTS: /(^|\s)(-[vqxslh]*p(?!\s*no:)|--pdbcls|--pastebin)/,
  FZF_DEFAULT_OPTS: /--(preview|bind)/,
}

/** Programs or libraries are searched in these folders. */
export const searched: ReadonlySet<string> = new Set(list('PATH LD_LIBRARY_PATH DYLD_LIBRARY_PATH'))

/** The value reaches a server: the address of a proxy or package index, or the name of the client. */
const sent =
  /^(GIT_(HTTP_)?USER_AGENT|(HTTPS?|ALL|FTP|SOCKS)_PROXY|GIT_PROXY\w*|GOPROXY|GOSUMDB|(PIP|UV|NPM_CONFIG|YARN|CARGO|BUNDLE|GEM|POETRY|CONDA|HOMEBREW|HELM|RUSTUP|NODE|NVM)_\w*(INDEX|REGISTRY|PROXY|URL|SERVER|MIRROR|DOMAIN|HOST|USER_AGENT|FIND_LINKS)\w*)$/

/** A build starts these programs. */
const buildTools: ReadonlySet<string> = new Set(list('CC CXX LD AR AS CPP FC RANLIB STRIP NM OBJCOPY'))

/** Some variables make programs run code, such as `GIT_SSH_COMMAND`. */
export function readVariable(variable: string, value: string, shell: Shell): void {
  const name = variable.toUpperCase()
  const options = Object.hasOwn(optionsFor, name) ? optionsFor[name] : undefined
  if (sent.test(name) && value.includes(output))
    shell.note('egress', 'a variable that is sent holds what a command prints')
  if (name === 'KUBECONFIG') shell.run(['kubectl', `--kubeconfig=${value}`])
  // tar reads its archive from `TAPE`, and options from `TAR_OPTIONS`.
  if (name === 'TAPE') shell.run(['tar', '-f', value])
  // Docker's client then works on the machine that the value names.
  if (/^(DOCKER|CONTAINER)_HOST$/.test(name) && otherMachine(value))
    shell.note('egress', 'it makes containers those of another machine')
  if (buildTools.has(variable) && /\s/.test(value.trim())) sendsInBuilds(value, shell)
  if (name === 'TAR_OPTIONS') shell.run(['tar', ...value.split(/\s+/)])
  if (runsCode.has(name) || runsCodeLike.test(name)) {
    shell.note('script', 'it sets a variable by which programs run code')
    code(value, shell)
  } else if (runsProgram.has(name)) {
    if (harmless.has(value.trim())) return
    shell.note('script', 'it sets the program that shows or edits texts')
    code(value, shell)
  } else if (options !== undefined) {
    if (!options.test(value)) return
    shell.note('script', 'it sets options by which programs run code')
    if (name.startsWith('PS')) shell.code(value)
  } else if (searched.has(variable) && value.split(':').some(isAnywhere)) {
    shell.note('script', 'it changes where programs are looked for')
  }
}

/** A plain `ssh` command is not read, because people often set one for fetching: `GIT_SSH_COMMAND='ssh -i key'`. */
function code(value: string, shell: Shell): void {
  const fetches =
    /^ssh(\s|$)/.test(value.trim()) && !/proxy|command|`|\$\(|[;&|]/i.test(value) && isPlain(value)
  if (!fetches)
    shell.suspects('a variable makes programs run a command that sends data out', () =>
      shell.code(asCode(value)),
    )
}

export const otherMachine = (address: string): boolean =>
  /^(tcp|ssh|https?):\/\//.test(address) &&
  !/^\w+:\/\/([^/@]*@)?(localhost|127\.0\.0\.1|\[::1\])([:/]|$)/.test(address)

/** Builds often take a command from a variable such as `CC`, so it is never a script, but egress if it sends. */
export function sendsInBuilds(value: string, shell: Shell): void {
  shell.suspects('a build is given a command that sends data out', () => shell.code(asCode(value)))
}

/** Whether others, or this command, may have put programs there; not into folders of installed packages. */
function isAnywhere(folder: string): boolean {
  if (folder === unknown || (isDynamic(folder) && folder.startsWith('/'))) return false
  if (/(^|\/)(node_modules\/\.bin|\.?v?env\/bin|vendor\/bin)\/?$/.test(folder)) return false
  return !folder.startsWith('/') && !folder.startsWith('~')
    ? !isDynamic(folder)
    : /^\/(tmp|var\/tmp|dev\/shm)(\/|$)/.test(folder)
}
