/*
 * Variables that make a program run another program, or read code from elsewhere. A command that sets such a variable
 * counts as a script, because the command no longer shows what runs.
 */
const list = (text: string): string[] => text.trim().split(/\s+/)

/** Variables whose value is a command, a library or a file of code. */
export const runsCode: ReadonlySet<string> = new Set(
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

/**
 * Matches more variables like those in `runsCode`. A part of each name varies: `GIT_CONFIG_KEY_0`, `BASH_FUNC_ls%%`,
 * `CARGO_TARGET_X_RUNNER`.
 */
export const runsCodeLike = /^(GIT_CONFIG_(KEY|VALUE)_|BASH_FUNC_|CARGO_TARGET_\w+_RUNNER$)/

/** Variables whose value is a program that shows or edits text. */
export const runsProgram: ReadonlySet<string> = new Set(
  list(`
    PAGER GIT_PAGER MANPAGER SYSTEMD_PAGER AWS_PAGER GH_PAGER BAT_PAGER DELTA_PAGER PSQL_PAGER GLAB_PAGER
    EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR SUDO_EDITOR SYSTEMD_EDITOR KUBE_EDITOR SVN_EDITOR HGEDITOR FCEDIT GH_EDITOR
    BROWSER GH_BROWSER GIT_MERGE_AUTOEDIT_COMMAND`),
)
/**
 * Well-known values of the variables in `runsProgram`. They do not count as a script. `cat` shows a text without a
 * pager. `true` and `:` take the place of an editor, so that no program waits for input. The empty text names no
 * program. The others are editors.
 */
export const harmless: ReadonlySet<string> = new Set([
  '',
  'cat',
  'true',
  ':',
  'vi',
  'vim',
  'nvim',
  'nano',
  'emacs',
])

/** Options of rustc that name a linker, or a library that the compiler loads. */
const rustc = /\blinker\s*=|codegen-backend|linker-plugin-lto=.*\/|link-args?=\S*(-B|fuse-ld=\S*\/)|(^|\s)@/

/**
 * Variables that contain options of a program. A value counts as a script if it has an option that loads or runs code.
 */
export const optionsFor: Readonly<Record<string, RegExp>> = {
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
  // Whenever the shell shows a prompt, it runs the substitutions in the prompt. `set -x` shows PS4.
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

/** Variables that list folders. Programs or libraries are searched in these folders. */
export const searched: ReadonlySet<string> = new Set(list('PATH LD_LIBRARY_PATH DYLD_LIBRARY_PATH'))

/**
 * Variables with a value that reaches a server. The value is the address of a proxy or package index, or the name with
 * which the client presents itself.
 */
export const sent =
  /^(GIT_(HTTP_)?USER_AGENT|(HTTPS?|ALL|FTP|SOCKS)_PROXY|GIT_PROXY\w*|GOPROXY|GOSUMDB|(PIP|UV|NPM_CONFIG|YARN|CARGO|BUNDLE|GEM|POETRY|CONDA|HOMEBREW|HELM|RUSTUP|NODE|NVM)_\w*(INDEX|REGISTRY|PROXY|URL|SERVER|MIRROR|DOMAIN|HOST|USER_AGENT|FIND_LINKS)\w*)$/

/** Variables that tell a build which program it must start. Example: the compiler (`CC`). */
export const buildTools: ReadonlySet<string> = new Set(list('CC CXX LD AR AS CPP FC RANLIB STRIP NM OBJCOPY'))
