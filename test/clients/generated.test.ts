import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { Api } from '../support/client.ts'
import { installPythonPackages } from '../support/python-packages.ts'
import { stackHome, startStack, type StackHome, type StartedStack } from '../support/start-stack.ts'

/*
 * Runs the two programs of docs/clients.md unchanged, with clients that are generated from the published openapi.json.
 */

const root = fileURLToPath(new URL('../..', import.meta.url))
const page = readFileSync(join(root, 'docs', 'clients.md'), 'utf8')
const description = join(root, 'docs', 'openapi.json')
const modules = join(root, 'node_modules')
const requirements = fileURLToPath(new URL('generated/requirements.txt', import.meta.url))

const program = (language: string): string =>
  new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'ms').exec(page)?.[1] ?? ''
const shown = (/^Both programs print this.*?^```\n(.*?)^```/ms.exec(page)?.[1] ?? '').split('\n')

let home: StackHome
let stack: StartedStack
/** The folder in which a reader would follow the page. */
let folder: string
let packages: string

beforeAll(async () => {
  packages = await installPythonPackages(requirements, 'client-generator')
  home = stackHome()
  folder = join(home.dataDir, '..', 'reader')
  mkdirSync(folder)
  stack = await startStack({ dataDir: home.dataDir })
  await new Api(home.dataDir, 'owner').settings({ approvals_enabled: true })
}, 600_000)

afterAll(async () => {
  await stack?.stop()
  await home?.remove()
})

/** Returns standard output. Throws with all output if the program fails. */
async function run(file: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
  const options = {
    cwd: folder,
    timeout: 600_000,
    env: { PATH: process.env['PATH'], HOME: folder, DATA_DIR: home.dataDir, ...env },
  }
  const { stdout } = await promisify(execFile)(file, args, options).catch(
    (error: Error & { stdout?: string; stderr?: string }) => {
      throw new Error(`${file} ${args.join(' ')}:\n${error.stdout}${error.stderr}`)
    },
  )
  return stdout
}
const node = (script: string, ...args: string[]): Promise<string> =>
  run(process.execPath, [join(modules, script), ...args])

test('a TypeScript client is generated, compiles strictly and makes every call', async () => {
  symlinkSync(modules, join(folder, 'node_modules'))
  writeFileSync(join(folder, 'package.json'), '{"type": "module"}')
  writeFileSync(join(folder, 'client.ts'), program('ts'))
  await node('openapi-typescript/bin/cli.js', description, '--output', 'countersign.d.ts')
  const strict = ['--strict', '--noUncheckedIndexedAccess', '--exactOptionalPropertyTypes', '--noEmit']
  const modern = ['--target', 'es2024', '--module', 'nodenext', '--allowImportingTsExtensions']
  // Without --skipLibCheck, so that the generated types are checked too.
  await node('@typescript/native/bin/tsc', ...strict, ...modern, '--types', 'node', 'client.ts')
  const printed = await run(process.execPath, ['--disable-warning=ExperimentalWarning', 'client.ts'])
  expect(printed.split('\n')).toEqual(shown)
})

test('a Python client is generated without a part left out, compiles and makes every call', async () => {
  const env = { PYTHONPATH: packages, PYTHONDONTWRITEBYTECODE: '1' }
  // The generator does not know the type of an export of the audit log (docs/clients.md).
  const types = 'content_type_overrides:\n  application/x-ndjson: text/plain\n'
  writeFileSync(join(folder, 'settings.yml'), `post_hooks: []\n${types}`)
  writeFileSync(join(folder, 'client.py'), program('python'))
  const generate = ['-m', 'openapi_python_client', 'generate', '--path', description, '--meta', 'none']
  // If the generator does not understand a schema, it only prints a warning and leaves out the schema's operations.
  const place = ['--output-path', 'countersign', '--config', 'settings.yml', '--fail-on-warning']
  await run('python3', [...generate, ...place], env)
  await run('python3', ['-m', 'compileall', '-q', 'countersign', 'client.py'], env)
  const printed = await run('python3', ['client.py'], env)
  const words: Readonly<Record<string, string>> = { null: 'None', true: 'True' }
  const inPython = shown.map((line) =>
    line
      .replace('{ plan: ', "{'plan': ")
      .replace("' }", "'}")
      .replaceAll(/\b(null|true)\b/g, (word) => words[word] ?? word),
  )
  expect(printed.split('\n')).toEqual(inPython)
})
