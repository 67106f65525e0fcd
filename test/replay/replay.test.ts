import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js'
import { DefaultLogger, Worker, type ReplayWorkerOptions } from '@temporalio/worker'
import { bundleWorkflows, workflowBundlePath } from '../../src/programs/workflow-bundle.ts'
import { continued, reasons, scenarios } from './scenarios.ts'

const root = join(import.meta.dirname, '..', '..')
const recorded = readdirSync(import.meta.dirname).filter((file) => file.endsWith('.json'))
const historyOf = (file: string) => historyFromJSON(JSON.parse(readFileSync(join(import.meta.dirname, file), 'utf8')))

async function replay(workflowBundle: ReplayWorkerOptions['workflowBundle'] & object): Promise<Map<string, Error | undefined>> {
  const histories = recorded.map((file) => ({ workflowId: file, history: historyOf(file) }))
  const results = new Map<string, Error | undefined>()
  for await (const { workflowId, error } of Worker.runReplayHistories({ workflowBundle }, histories))
    results.set(workflowId, error)
  return results
}

describe('recorded histories', () => {
  test('exist for every kind of run, and each has its reason', () => {
    const names = recorded.map((file) => file.replace('.json', ''))
    expect(names.sort()).toEqual(Object.keys(reasons).sort())
    expect(names).toHaveLength(12)
    const kinds = new Set(names.map((name) => name.replace(/-\d+$/, '')))
    expect([...kinds].sort()).toEqual(Object.keys({ ...scenarios, ...continued }).sort())
  })

  test('replay with the bundle that production runs', async () => {
    const results = await replay({ codePath: await workflowBundlePath() })
    expect([...results].filter(([, error]) => error !== undefined)).toEqual([])
    expect(results.size).toBe(recorded.length)
  })

  test('replay with a bundle that also loads every declaration of tools, of their services and of kinds of steps', async () => {
    const from = 'import type { RunInput }'
    const imports =
      `import { getTool, integrationNames } from '../../tools/index.ts'\n` +
      `import { kindFields } from '../../steps/index.ts'\n`
    const start = '  const interpret ='
    const check = `  if (getTool('memory_get') === undefined || integrationNames.length === 0 || kindFields.wait === undefined) throw new Error('nothing is declared')\n`
    const bundle = await changedBundle('index.ts', [[from, imports + from], [start, check + start]])
    expect([...(await replay(bundle))].filter(([, error]) => error !== undefined)).toEqual([])
  })

  test('do not replay with an interpreter that waits at another place', async () => {
    const bundle = await changedBundle('call.ts', [['  try {\n', '  await sleep(1)\n  try {\n']])
    // All except the run that was rejected before its first call.
    expect(await caughtBy(bundle)).toEqual(recorded.filter((file) => file !== 'refused.json').sort())
  })

  test('do not replay with an interpreter that runs another number of items at once', async () => {
    const bundle = await changedBundle('items.ts', [['windowSize = 50', 'windowSize = 49']])
    expect(await caughtBy(bundle)).toEqual(['for-each.json'])
  })

  test('do not replay with an interpreter that never continues in a new history', async () => {
    const bundle = await changedBundle('history.ts', [['isLong: continueAsNewSuggested || events >= longEnough', 'isLong: false']])
    const left = recorded.filter((file) => lastEventOf(file) === 'EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW')
    expect(left).toEqual(['continued-1.json', 'continued-2.json', 'continued-gate-1.json'])
    expect(await caughtBy(bundle)).toEqual(expect.arrayContaining(left))
  })
})

const lastEventOf = (file: string) => {
  const { events } = JSON.parse(readFileSync(join(import.meta.dirname, file), 'utf8')) as { events: { eventType: string }[] }
  return events.at(-1)?.eventType
}

/** The recorded histories that do not replay with this interpreter. */
async function caughtBy(bundle: ReplayWorkerOptions['workflowBundle'] & object): Promise<string[]> {
  const results = await replay(bundle)
  return [...results].flatMap(([file, error]) => (error?.name === 'DeterminismViolationError' ? [file] : [])).sort()
}

/** The interpreter with replacements in one of its files. */
async function changedBundle(file: string, replacements: readonly (readonly [string, string])[]) {
  const folder = mkdtempSync(join(tmpdir(), 'changed-interpreter-'))
  try {
    cpSync(join(root, 'src'), join(folder, 'src'), { recursive: true })
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
    const path = join(folder, 'src', 'workflows', 'governed-run', file)
    let code = readFileSync(path, 'utf8')
    for (const [from, to] of replacements) {
      expect(code).toContain(from)
      code = code.replace(from, to)
    }
    writeFileSync(path, code)
    return { code: await bundleWorkflows(join(folder, 'src', 'workflows'), 'ts', new DefaultLogger('ERROR')) }
  } finally {
    rmSync(folder, { recursive: true })
  }
}
