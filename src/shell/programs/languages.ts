import type { Program, Shell } from '../types.ts'
import { readSources } from './fetchers.ts'
import { starts, sendsByPath } from './paths.ts'
import { isTestOrBuild } from '../tables/tools.ts'
import { mayRun } from './unknown.ts'

/** A tool chain, such as cargo. Building and testing count as harmless. Starting a program counts as a script. */
interface Chain {
  /** Subcommands that start a program. */
  readonly runs: RegExp
  /** If given, every other subcommand is a third-party program, and counts as a script. */
  readonly quiet?: RegExp
  /** Options that take the next word as their value. */
  readonly valued?: RegExp
  /** Whether the word after the subcommand can be a task, and a test or a build then counts as harmless. */
  readonly tasks?: boolean
  /** Options that make a build run a program. */
  readonly option?: RegExp
}

const chains: Readonly<Record<string, Chain>> = {
  cargo: {
    runs: /^(run|r|xtask|script)$/,
    quiet:
      /^(build|b|check|c|clean|doc|d|new|init|add|remove|rm|test|t|bench|update|search|install|uninstall|fmt|clippy|fix|tree|metadata|fetch|vendor|generate-lockfile|locate-project|package|login|logout|verify-project|version|help|nextest|audit|deny|outdated|machete|udeps|llvm-cov|tarpaulin|miri|expand|pkgid|rustc|rustdoc|info|report|config|hack|insta|edit|upgrade|binstall|criterion|about|sort|publish|yank|owner|release|binutils|criterion|zigbuild|ndk|component|wasi)$/,
    valued: /^(-C|-Z|--config|--color|--manifest-path|--target-dir)$/,
    option: /^--config=?.*(runner|rustc|wrapper|linker)/,
  },
  go: {
    runs: /^(run|generate)$/,
    valued: /^-C$/,
    option: /^--?(exec|toolexec|vettool|overlay)(=|$)|-extld\b/,
  },
  dotnet: { runs: /^(run|watch|exec|script|fsi|tool-run|ef|.*\.dll)$/ },
  swift: { runs: /^(run|repl|.*\.swift)$/ },
  zig: { runs: /^run$/ },
  nim: { runs: /^(r|e|secret)$/, option: /^(-r|--run)$/ },
  crystal: { runs: /^(run|eval|play|i|.*\.cr)$/ },
  dart: { runs: /^(run|.*\.dart)$/ },
  flutter: { runs: /^(run|drive)$/ },
  v: { runs: /^(run|crun|.*\.vsh?)$/ },
  stack: { runs: /^(run|exec|script|runghc|runhaskell|ghci|repl|eval)$/ },
  cabal: { runs: /^(run|v2-run|exec|repl)$/ },
  mix: { runs: /^(run|phx\.server|ecto\..*|cmd|escript\.\w+)$/ },
  sbt: { runs: /^~?(run|runMain.*|console|shell)$/ },
  lein: { runs: /^(run|repl|exec|trampoline)$/ },
  rebar3: { runs: /^(shell|escriptize|run)$/ },
  foundry: { runs: /^script$/ },
  forge: { runs: /^script$/ },
  bazel: { runs: /^(run|mobile-install)$/ },
  bazelisk: { runs: /^(run|mobile-install)$/ },
  buck2: { runs: /^run$/ },
  mise: { runs: /^(run|r|x|exec|en|tasks|watch)$/ },
  asdf: { runs: /^(exec|cmd)$/ },
  nix: { runs: /^(run|develop|shell|repl|eval)$/ },
  'nix-shell': { runs: /./ },
  composer: { runs: /^(run|run-script|exec)$/ },
  heroku: { runs: /^(run|local)(:.*)?$/ },
  vagrant: { runs: /^(ssh|provision|winrm|up|reload)$/ },
  terraform: { runs: /^(console)$/ },
  tofu: { runs: /^(console)$/ },
  terragrunt: { runs: /^(console|exec)$/ },
  fastlane: { runs: /./ },
  'docker-machine': { runs: /^(ssh|scp)$/ },
  multipass: { runs: /^(exec|shell)$/ },
  lxc: { runs: /^(exec|shell|console)$/ },
  adb: { runs: /^shell$/ },
  luarocks: { runs: /^(test|make)$/ },
  flatpak: { runs: /^(run|enter)$/ },
  snap: { runs: /^run$/ },
  distrobox: { runs: /^(enter|ephemeral)$/ },
  toolbox: { runs: /^(run|enter)$/ },
  zellij: { runs: /^(run|action|r|ac)$/ },
  pueue: { runs: /^add$/ },
  guix: { runs: /^(shell|environment|repl|time-machine)$/ },
  apptainer: { runs: /^(exec|run|shell|instance)$/ },
  singularity: { runs: /^(exec|run|shell|instance)$/ },
  modal: { runs: /^(run|serve|shell|launch)$/ },
  foreman: { runs: /^(run|start)$/ },
  honcho: { runs: /^(run|start)$/ },
  devbox: { runs: /^(run|shell|services)$/, tasks: true },
  pixi: { runs: /^(run|exec|shell)$/ },
  infisical: { runs: /^run$/ },
  chamber: { runs: /^exec$/ },
  teller: { runs: /^(run|sh)$/ },
  volta: { runs: /^run$/ },
  tox: { runs: /^(exec|e)$/ },
  sops: { runs: /^(exec-env|exec-file)$/ },
  xdotool: { runs: /^exec$/ },
  csvtool: { runs: /^call$/ },
  puppet: { runs: /^(apply|agent)$/ },
  knife: { runs: /^(exec|ssh)$/ },
  k6: { runs: /^run$/ },
  hadoop: { runs: /^jar$/ },
  flink: { runs: /^run(-application)?$/ },
  storm: { runs: /^jar$/ },
  ray: { runs: /^(job|exec|submit|up|attach)$/ },
  nextflow: { runs: /^run$/ },
  mlflow: { runs: /^run$/ },
  kedro: { runs: /^run$/ },
  dbt: { runs: /^(run|build|seed|snapshot|run-operation)$/ },
  service: { runs: /[/]/ },
  'run-parts': { runs: /^[^-]/ },
  'start-stop-daemon': { runs: /^[^-]/ },
}

export const chainNames: readonly string[] = Object.keys(chains)

export const chain: Program = (args, shell, call, name) => {
  if (/^(terraform|tofu|terragrunt)$/.test(name)) readSources(name, args, shell)
  sendsByPath(shell, name, args)
  const { runs, quiet, valued, tasks, option } = chains[name] ?? { runs: /$^/ }
  if (args.length === 1 && /^(--?(version|help)|-V|-h)$/.test(args[0] ?? '')) return
  const joined = args.map((arg, at) => (arg === '--config' ? `--config=${args[at + 1] ?? ''}` : arg))
  if (option !== undefined && joined.some((arg) => option.test(arg)))
    shell.note('script', `\`${name}\` is told which program to run`)
  const from = starts(args, valued)
  for (const at of from)
    if (runs.test(args[at] ?? '')) {
      const rest = args.slice(name === 'service' ? at : at + 1)
      const quietTask = tasks === true && isTestOrBuild(rest[0] ?? '')
      if (startsSender(rest, shell, call, name) || !quietTask) shell.note('script', `\`${name}\` runs code`)
    }
  const first = args[from[0] ?? args.length]
  if (quiet !== undefined && first !== undefined && !quiet.test(first))
    shell.note('script', `\`${name}\` runs a program of another name`)
}

/** Whether a command that sends data out follows (`pixi run curl`). After `cargo run` and similar none does. */
function startsSender(
  rest: readonly string[],
  shell: Shell,
  call: Parameters<Program>[2],
  name: string,
): boolean {
  const sends = mayRun(rest, shell, call) && !/^(go|cargo|swift|dart|flutter|bazel)$/.test(name)
  if (sends) shell.note('egress', `\`${name}\` starts a program that sends data out`)
  return sends
}
