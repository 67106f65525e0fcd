import { list } from '../types.ts'
/* Names that mean a test or a build, which count as no script. */

/** Starting such a tool with a package runner (`npx`, `uvx`, `bundle exec`) counts as no script. */
export const testTools: ReadonlySet<string> = new Set(
  list(`
    jest vitest mocha ava tap nyc c8 karma jasmine qunit uvu cypress playwright wtr
    eslint tslint stylelint prettier biome oxlint oxfmt dprint standard xo knip depcheck markdownlint markdownlint-cli2
    commitlint cspell publint attw tsd htmlhint
    tsc vue-tsc svelte-check tsup esbuild rollup webpack swc babel rspack unbuild ncc microbundle
    pytest py.test unittest tox nox coverage mypy ruff black flake8 pylint isort pyright basedpyright bandit pycodestyle
    pydocstyle pyflakes codespell yamllint vulture sphinx-build doctest pre-commit ty
    rspec rubocop minitest cucumber standardrb
    phpunit pest phpstan psalm php-cs-fixer phpcs pint paratest
    ctest golangci-lint staticcheck gotestsum`),
)

/** Tools that also do other things, with the subcommands that test or build. */
const testSubcommands: ReadonlyMap<string, RegExp> = new Map([
  ...list(
    'vite next nuxt astro remix ng vue-cli-service react-scripts parcel gatsby expo-doctor storybook',
  ).map((name): [string, RegExp] => [name, /^(build|test|lint|check|typecheck)$/]),
  ['hardhat', /^(test|compile)$/],
  ['mkdocs', /^build$/],
  ['truffle', /^(test|compile)$/],
  ['rake', /^(test|spec|build|lint|rubocop)$/],
  ['rails', /^test(:\w+)?$/],
])

/** A package runner may start them with such a subcommand, unless their own reader finds a script. */
export const judgedTools: ReadonlyMap<string, RegExp> = new Map([
  ['turbo', /^/],
  ['lerna', /^(run|list|ls|changed|diff|bootstrap|clean)$/],
  ['nx', /^(?!(exec|watch|generate|g|migrate|init|import|add|connect|new|repair|mcp|release)$)/],
])

/**
 * They may start in a folder of the project, or behind a launcher such as `poetry run`, unless their own reader finds a
 * script. Runners such as `npx` fetch a package of the same name instead.
 */
export const judgedPrograms: ReadonlySet<string> = new Set(
  list('python pypy pip node nodejs php rails rake npm yarn pnpm npx bun deno cargo go uv poetry bundle'),
)

/** The tool in a package of a scope. All are listed, because anybody can publish `@scope/jest`. */
export const scopedTools: ReadonlyMap<string, string> = new Map([
  ['@angular/cli', 'ng'],
  ['@arethetypeswrong/cli', 'attw'],
  ['@babel/cli', 'babel'],
  ['@biomejs/biome', 'biome'],
  ['@changesets/cli', 'changeset'],
  ['@commitlint/cli', 'commitlint'],
  ['@playwright/test', 'playwright'],
  ['@railway/cli', 'railway'],
  ['@rspack/cli', 'rspack'],
  ['@sentry/cli', 'sentry-cli'],
  ['@swc/cli', 'swc'],
  ['@vscode/vsce', 'vsce'],
  ['@vue/cli-service', 'vue-cli-service'],
])

/** Test or build tools, or modules that install packages. */
export const testModules: ReadonlySet<string> = new Set([
  ...testTools,
  ...list('build pip venv virtualenv json.tool pipdeptree piptools ensurepip '),
])

const wanted = new Set(
  list(`test tests spec specs unit integration e2e coverage cov jest vitest mocha cypress playwright pytest
    build rebuild compile bundle tsc lint eslint typecheck typechecks types type check checks pretest prebuild posttest postbuild`),
)
/** A package script with such a word in its name does more. */
const more = new Set(
  list(`deploy publish release push upload send start serve server dev seed migrate migration run exec sync
    notify report install import export generate gen data db preview ship promote`),
)

export function isTestTool(name: string, args: readonly string[]): boolean {
  const subcommand = args.find((word) => !word.startsWith('-')) ?? ''
  return testTools.has(name) || testSubcommands.get(name)?.test(subcommand) === true
}

/** Whether a package script or task means test, build, lint or type check, such as `test:unit` or `type-check`. */
export function isTestOrBuild(name: string): boolean {
  const words = name
    .replaceAll(/([a-z])([A-Z])/g, '$1-$2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== '')
  return wanted.has(words[0] ?? '') && !words.some((word) => more.has(word)) && words[0] !== 'check-in'
}
