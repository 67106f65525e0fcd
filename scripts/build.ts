import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { DefaultLogger } from '@temporalio/worker'
import { adapters } from '../src/api/adapters.ts'
import { documentFiles } from '../src/api/console/documents.ts'
import { builtScript, bundleScript, scripts } from '../src/api/console/assets.ts'
import { bundleWorkflows } from '../src/programs/workflow-bundle.ts'

/*
 * `npm run build [-- FOLDER]`: compiles src/ to JavaScript in dist/ (or FOLDER). Adds the console's assets, the
 * documents, the adapters and the bundled workflow code. Replaces the folder only when every part has succeeded. Start the result with
 * `node dist/programs/main.js` (or `api-server.js`, `worker.js`).
 */

const root = fileURLToPath(new URL('..', import.meta.url))
const target = resolve(process.argv[2] ?? join(root, 'dist'))
// The build is first made in this folder beside `target`, and then renamed to `target`.
const making = join(dirname(target), `.dist-${process.pid}`)

try {
  execFileSync(join(root, 'node_modules', '.bin', 'tsc'), ['-p', 'tsconfig.build.json', '--outDir', making], {
    cwd: root,
    stdio: 'inherit',
  })
  cpSync(join(root, 'src', 'console', 'style'), join(making, 'console', 'style'), { recursive: true })
  for (const name of scripts) writeFileSync(join(making, 'console', builtScript(name)), bundleScript(name))
  for (const file of documentFiles()) cpSync(join(root, 'docs', file), join(making, 'docs', file))
  mkdirSync(join(making, 'adapters'))
  for (const { name, bytes } of adapters().values()) writeFileSync(join(making, 'adapters', name), bytes)
  const code = await bundleWorkflows(join(making, 'workflows'), 'js', new DefaultLogger('WARN'))
  // src/programs/workflow-bundle.ts looks for a file with this name.
  writeFileSync(join(making, 'workflows.bundle.js'), code)
  rmSync(target, { recursive: true, force: true })
  renameSync(making, target)
} catch (error) {
  rmSync(making, { recursive: true, force: true })
  process.stderr.write(`error: ${(error as Error).message}\n`)
  process.exitCode = 1
}
