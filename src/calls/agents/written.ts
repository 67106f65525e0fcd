import { basename } from 'node:path/posix'
import { patched } from '../../shell/programs/known-programs.ts'
import { testTools } from '../../shell/tables/tools.ts'
import { list } from '../../shell/types.ts'
import type { Json, JsonObject } from '../../policy/types.ts'
import { isDynamic } from '../../shell/marks.ts'

/*
 * What a session has written and an innocent command would run: `conftest.py` by `pytest`, a hook by `git commit`. Other
 * files are not kept. The name is that of the file alone, after the kind: `git:pre-commit`.
 */

const kinds = ['build', 'git', 'shell', 'ssh', 'container', 'terraform'] as const
type Kind = (typeof kinds)[number]

/** In this order: the first that matches a path counts. */
const files: readonly (readonly [Kind, RegExp])[] = [
  [
    'git',
    /(^|\/)(\.git|\.husky|\.githooks|\.config\/git)\/|^(\.git(config|modules|attributes)|\.pre-commit-config\.ya?ml|\.?lefthook(-local)?\.(ya?ml|toml))$/,
  ],
  ['ssh', /(^|\/)(\.ssh|ssh_config\.d)\/|^ssh_config$/],
  [
    'shell',
    /^\.(envrc|bashrc|bash_\w+|profile|zshrc|zshenv|zprofile|zlogin|mise\.toml|tool-versions)$|(^|\/)(profile\.d|fish\/conf\.d)\/|^config\.fish$/,
  ],
  [
    'container',
    /^(Docker|Container)file(\.[\w.-]+)?$|\.(docker|container)file$|^(docker-)?compose[\w.-]*\.ya?ml$/i,
  ],
  ['terraform', /\.(tf|tfvars|hcl)(\.json)?$/],
  [
    'build',
    /(^|\/)(tests?|specs?|__tests__|__mocks__|e2e|cypress|\.cargo|\.mvn|gradle\/wrapper|buildSrc|\.yarn|node_modules|site-packages|\.?v?env)\//,
  ],
  [
    'build',
    /^test_.*\.py$|^(conftest|noxfile|setup|sitecustomize|usercustomize|tasks|fabfile|dodo|wscript|SConstruct|SConscript)(\.py)?$|[._-](test|spec|tests|specs)\.\w+$|Tests?\.(java|kt|kts|cs|php|swift|scala)$/,
  ],
  [
    'build',
    /^(GNU)?makefile(\.\w+)?$|\.(mk|mak|cmake|gradle|gradle\.kts|bzl|bazel|sbt|gemspec|podspec|csproj|fsproj|vbproj|props|targets|sln|pth|nimble|cabal|opam|am|ac|m4|gyp|gypi)$|^(CMakeLists\.txt|meson(_options)?\.(build|txt)|BUILD|WORKSPACE|MODULE\.bazel|\.bazelrc|build\.(rs|zig|xml|sc|mill|ninja|boot)|Cargo\.toml|go\.(mod|work)|pom\.xml|gradle\.properties|mix\.exs|rebar\.config|dune(-project)?|Rakefile|Gemfile|\.rspec|\.irbrc|Guardfile|Fastfile|Podfile|Package\.swift|composer\.json|phpunit\.xml(\.dist)?|Taskfile\.ya?ml|\.?justfile|configure|stack\.yaml|deno\.jsonc?|bunfig\.toml|pubspec\.yaml)$/i,
  ],
  [
    'build',
    /^(package(-lock)?\.json|pnpm-(workspace|lock)\.yaml|yarn\.lock|\.(npm|yarn|pnp|swc|babel|mocha|eslint|stylelint|prettier|lintstaged|nyc|taprc|puppeteer|cosmiconfig|size-limit|browserslist)\w*(\.[\w.]+)?|\.pnpmfile\.cjs|\.(babelrc|eslintrc|mocharc|prettierrc|stylelintrc|swcrc|yarnrc|npmrc|nycrc|lintstagedrc)(\.\w+)?|(ts|js)config[\w.-]*\.json|(turbo|nx|lerna|rush|project|angular)\.json|(gulp|Grunt)file(\.\w+)*|[\w.-]+\.config\.\w+)$/i,
  ],
  [
    'build',
    /^(setup\.cfg|pyproject\.toml|tox\.ini|pytest\.ini|\.coveragerc|pip\.conf|pip\.ini|uv\.toml|poetry\.toml|Pipfile|hatch\.toml|mypy\.ini|\.mypy\.ini|ruff\.toml|\.pylintrc|pylintrc|\.flake8|environment\.ya?ml|(requirements|constraints)[\w.-]*\.(txt|in))$/i,
  ],
]

const programs: Readonly<Record<Kind, ReadonlySet<string>>> = {
  git: new Set(list('git gh glab hub jj pre-commit husky lefthook yadm chezmoi pass')),
  ssh: new Set(list('git ssh scp sftp rsync mosh ansible')),
  shell: new Set(list('direnv mise asdf bash sh zsh fish dash ksh tmux screen su login')),
  container: new Set(
    list('docker podman nerdctl docker-compose podman-compose buildah skaffold tilt devcontainer kaniko'),
  ),
  terraform: new Set(list('terraform tofu terragrunt packer nomad')),
  build: new Set([
    ...testTools,
    ...list(`make gmake ninja cmake meson bazel bazelisk buck2 pants npm npx yarn pnpm pnpx bun bunx deno node nodejs turbo nx
      lerna rush rushx gulp grunt npm-run-all run-s run-p concurrently python pypy pip uv uvx poetry pipenv pdm hatch rye pipx
      conda jupyter cargo go rustc dotnet msbuild mvn mvnw gradle gradlew sbt lein mix rebar3 rake bundle rails ruby gem
      composer php swift xcodebuild flutter dart pod fastlane just task invoke inv fab mage moon pre-commit lefthook husky
      cabal stack dune opam zig nim nimble crystal elm configure vite next nuxt astro ng vue-cli-service react-scripts
      changeset semantic-release jest-worker ant mill scons waf doit autoreconf hardhat truffle forge`),
  ]),
}

/** Beyond this number the session counts as having written a file of every kind. */
const mostWritten = 64
const every = 'every:'

/** The entry for a path, as a command or a tool names it; null if no command runs such a file. */
function entryOf(path: string): string | null {
  const plain = path.replaceAll('\\', '/').slice(0, 4_096)
  const name = basename(plain)
  if (isDynamic(name) && name.includes('\uFFF1')) return every
  const found = files.find(([, pattern]) => pattern.test(name) || pattern.test(plain))
  return found === undefined ? null : `${found[0]}:${name.slice(0, 100)}`
}

/** Entries for what a call writes, each once. */
export const entriesOf = (paths: readonly string[]): readonly string[] => [
  ...new Set(paths.flatMap((path) => entryOf(path) ?? [])),
]

export function withWritten(known: readonly string[], added: readonly string[]): readonly string[] {
  const all = [...new Set([...known, ...added])]
  return all.length <= mostWritten || known.includes(every)
    ? all.slice(0, mostWritten)
    : [...known.slice(0, mostWritten - 1), every]
}

/** The program and the file of this session that it may run. */
export function runsWritten(
  started: readonly string[],
  written: readonly string[],
): { readonly program: string; readonly file: string } | null {
  for (const entry of written) {
    const at = entry.indexOf(':')
    const [kind, file] = [entry.slice(0, at), entry.slice(at + 1)]
    const program = started.find((name) =>
      kinds.some((each) => (kind === each || entry === every) && programs[each].has(name)),
    )
    if (program !== undefined) return { program, file }
  }
  return null
}

const pathFields = 'file_path notebook_path path filePath absolute_path target_file target_notebook'.split(
  ' ',
)

/** Paths that a tool for files names: its arguments, and the files of a patch. */
export function pathsWritten(input: JsonObject): readonly string[] {
  const named = pathFields.flatMap((field) => textsOf(Object.hasOwn(input, field) ? input[field] : undefined))
  return [
    ...named,
    ...['input', 'patch'].flatMap((field) => (typeof input[field] === 'string' ? patched(input[field]) : [])),
  ]
}

const textsOf = (value: Json | undefined): readonly string[] =>
  typeof value === 'string'
    ? [value]
    : Array.isArray(value)
      ? value.filter((each) => typeof each === 'string')
      : []
