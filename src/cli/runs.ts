import { spawn } from 'node:child_process'
import { fstatSync, readFileSync, statSync } from 'node:fs'
import { basename } from 'node:path'
import { Option, type Command } from 'commander'
import type { AnswerOf, BodyOf } from '../api/routes/index.ts'
import { onRepeats, runStatuses } from '../contract/status.ts'
import { apiOf, command, listed, positive, type Shared } from './command.ts'
import { Failure, Refusal, similarNames } from './failure.ts'
import { followRun, type RunEvent, type RunView } from './follow.ts'
import type { Api } from './http.ts'
import {
  ago,
  clearPassing,
  say,
  showPassing,
  toneOf,
  write,
  writeJson,
  writeLine,
  writeTable,
} from './terminal.ts'

export function addRunCommands(program: Command): void {
  command(program, 'run <workflow>', 'start a run of a workflow, named by slug, name or id')
    .option('-i, --input <name=value>', 'an input; repeat it for others', listed, [])
    .option('--file <path>', 'upload a file for the run; repeat it for others', listed, [])
    .option('-f, --follow', 'show the steps live, and wait for the result')
    .action(startRun)
  command(program, 'workflows', 'list workflows, newest first')
    .option('-n, --limit <number>', 'at most so many', positive, 50)
    .action(listWorkflows)
  command(program, 'runs', 'list runs, newest first')
    .addOption(new Option('--status <status>', 'only runs with this status').choices(runStatuses))
    .option('--workflow <name>', 'only runs of workflows with this in their name')
    .option('-n, --limit <number>', 'at most so many', positive, 20)
    .action(listRuns)
  command(program, 'logs <run>', 'print what happened in a run')
    .option('-f, --follow', 'go on until the run has ended')
    .action(showLogs)
  command(
    program,
    'rerun <run>',
    'run again from an ended run; a call is not made twice with the same parameters',
  )
    .option('--from <where>', '`failed` (default), `start`, or steps with commas between them')
    .addOption(
      new Option(
        '--on-repeat <how>',
        'what becomes of a call that was made already with the same parameters',
      ).choices(onRepeats),
    )
    .option(
      '-i, --input <name=value>',
      'an input that replaces that of the run; calls that read it are made again',
      listed,
      [],
    )
    .option('--latest', 'with the latest version of the workflow')
    .option('-f, --follow', 'show the steps live, and wait for the result')
    .action(runAgain)
  command(program, 'cancel <run>', 'cancel a run')
    .option('--reason <text>', 'why, for the audit log')
    .action(cancel)
}

interface Starting extends Shared {
  readonly input: readonly string[]
  readonly follow?: true
}

async function startRun(named: string, options: Starting & { file: readonly string[] }): Promise<void> {
  const api = apiOf()
  const found = await workflowOf(api, named)
  const inputs = inputsOf(options.input, found?.definition.inputs)
  const files: string[] = []
  for (const path of options.file) files.push((await api.upload(basename(path), bytesOf(path))).id)
  const body: BodyOf<'POST /workflows/{id}/execute'> = { inputs, ...(files.length > 0 ? { files } : {}) }
  const params = { id: found?.id ?? named }
  const started = await api.call('POST /workflows/{id}/execute', { params, query: { wait: '0' }, body })
  await follow(api, started.execution_id, options, started)
}

/** The largest file that a server takes. */
const mostFile = 25 * 1024 * 1024

function bytesOf(path: string): Uint8Array<ArrayBuffer> {
  try {
    if (statSync(path).size > mostFile) throw new Failure(`\`${path}\` is larger than 25 MiB: send less`)
    return new Uint8Array(readFileSync(path))
  } catch (error) {
    if (error instanceof Failure) throw error
    throw new Failure(`\`${path}\` cannot be read: ${(error as Error).message}`)
  }
}

type Workflow = AnswerOf<'GET /workflows/{id}'>

/**
 * By id or slug, else by its name. Null: the key may start workflows and may not read them, so inputs are texts. Throws
 * with similar names.
 */
async function workflowOf(api: Api, named: string): Promise<Workflow | null> {
  try {
    return await api.call('GET /workflows/{id}', { params: { id: named } })
  } catch (error) {
    if (error instanceof Refusal && error.code === 'missing_scope') return null
    if (!(error instanceof Refusal) || error.code !== 'not_found') throw error
  }
  const { data } = await api.call('GET /workflows', { query: { name: named } }).catch(() => ({ data: [] }))
  const [one, ...others] = data
  if (others.length > 0)
    throw new Failure([
      `${data.length} workflows have the name \`${named}\`: say which by its id`,
      ...data.slice(0, 20).map(({ id, slug }) => `  ${id}${slug === null ? '' : ` (${slug})`}`),
    ])
  if (one !== undefined) return api.call('GET /workflows/{id}', { params: { id: one.id } })
  const known = await api.call('GET /workflows', { query: { limit: '200' } })
  const names = known.data.flatMap(({ name, slug }) => (slug === null ? [name] : [slug, name]))
  throw new Failure([
    `there is no workflow \`${named}\`: \`countersign workflows\` lists them`,
    ...similarNames(named, names),
  ])
}

/** `name=value`; what is no text by its declaration is JSON. */
function inputsOf(given: readonly string[], declared: Workflow['definition']['inputs']) {
  const inputs: Record<string, unknown> = {}
  for (const text of given) {
    const [, name = '', value = ''] = /^([^=]+)=(.*)$/s.exec(text) ?? []
    if (name === '') throw new Failure(`\`${text}\` is no input: write \`-i name=value\``)
    if (name in inputs) throw new Failure(`the input \`${name}\` is given twice: give it once`)
    if (declared !== undefined && !Object.hasOwn(declared, name))
      throw new Failure([
        `the workflow has no input \`${name}\``,
        `it has ${
          Object.keys(declared)
            .map((each) => `\`${each}\``)
            .join(', ') || 'none'
        }`,
      ])
    const type = declared?.[name]?.type ?? 'string'
    inputs[name] = type === 'string' ? value : jsonOf(name, value, type)
  }
  return inputs
}

function jsonOf(name: string, value: string, type: string): unknown {
  try {
    return JSON.parse(value)
  } catch {
    throw new Failure(
      `the input \`${name}\` is of type ${type}: write it as JSON, such as \`${examples[type] ?? '{}'}\``,
    )
  }
}

const examples: Readonly<Record<string, string>> = {
  number: `3`,
  boolean: 'true',
  array: '["a", "b"]',
  object: '{"a": 1}',
}

async function runAgain(
  runId: string,
  options: Starting & { from?: string; onRepeat?: (typeof onRepeats)[number]; latest?: true },
): Promise<void> {
  const api = apiOf()
  const before = await api.call('GET /runs/{id}', { params: { id: runId } })
  const found =
    options.input.length === 0 || before.workflow_id === null
      ? null
      : await workflowOf(api, before.workflow_id)
  const { from } = options
  const run = await api.call('POST /runs/{id}/rerun', {
    params: { id: runId },
    body: {
      inputs: inputsOf(options.input, found?.definition.inputs),
      ...(from === undefined ? {} : { from: from === 'failed' || from === 'start' ? from : from.split(',') }),
      ...(options.onRepeat === undefined ? {} : { on_repeat: options.onRepeat }),
      ...(options.latest === true ? { version: 'latest' as const } : {}),
    },
  })
  await follow(api, run.id, options, { status: run.status, status_reason: run.status_reason })
}

async function cancel(runId: string, { json, reason }: Shared & { reason?: string }): Promise<void> {
  const body = reason === undefined ? {} : { reason }
  const run = await apiOf().call('POST /runs/{id}/cancel', { params: { id: runId }, body })
  if (json === true) writeJson(run)
  else writeLine(run.id, run.status)
}

async function listWorkflows({ json, limit }: Shared & { limit: number }): Promise<void> {
  const query = { limit: String(Math.min(limit, 200)) }
  const { data } = await apiOf().call('GET /workflows', { query })
  if (json === true) return writeJson(data)
  writeTable(
    ['WORKFLOW', 'SLUG', 'NAME'],
    data.map(({ id, slug, name }) => [id, slug ?? '', name]),
    'no workflow yet',
  )
}

async function listRuns(
  options: Shared & { status?: (typeof runStatuses)[number]; workflow?: string; limit: number },
): Promise<void> {
  const { status, workflow, limit } = options
  const { data } = await apiOf().call('GET /runs', {
    query: {
      limit: String(Math.min(limit, 200)),
      ...(status === undefined ? {} : { status }),
      ...(workflow === undefined ? {} : { workflow_name: workflow }),
    },
  })
  if (options.json === true) return writeJson(data)
  writeTable(
    ['RUN', 'STATUS', 'WORKFLOW', 'BY', 'BEGAN', 'WHY'],
    data.map((run) => [
      run.id,
      { text: run.status, style: toneOf(run.status) },
      run.workflow_name ?? '',
      run.requester_email,
      process.stdout.isTTY ? ago(run.created_at) : run.created_at,
      run.status_reason,
    ]),
    status === undefined && workflow === undefined ? 'no run yet' : 'there is no such run',
  )
}

async function showLogs(runId: string, { json, follow: goesOn }: Shared & { follow?: true }): Promise<void> {
  const api = apiOf()
  const lines = (event: RunEvent): void =>
    json === true ? write(JSON.stringify(event)) : writeLine(event.at, wordsOf(event))
  if (goesOn === true) {
    endWithReader()
    return failUnlessCompleted(await watched(api, runId, lines))
  }
  // The stream of a run that goes on has no end: it is left when nothing more comes.
  const quiet = new AbortController()
  let timer = setTimeout(() => quiet.abort(), longestSilence)
  await followRun(
    api,
    runId,
    (event) => {
      lines(event)
      clearTimeout(timer)
      timer = setTimeout(() => quiet.abort(), shortestSilence)
    },
    quiet.signal,
  ).catch((error: Error) => {
    if (!quiet.signal.aborted) throw error
  })
  clearTimeout(timer)
}

/**
 * Ends the command when nobody reads its output any more, such as after `head`. Node.js only sees it when it writes, and
 * a run that waits has nothing to say for long. GNU `tail` sees it at once; without it, the next event ends the command.
 */
function endWithReader(): void {
  const end = (): never => process.exit(0)
  process.stdout.once('error', end)
  if (!fstatSync(process.stdout.fd).isFIFO()) return
  const watcher = spawn('tail', [`--pid=${process.pid}`, '-f', '/dev/null'], {
    stdio: ['ignore', 'inherit', 'ignore'],
  })
  watcher.once('exit', (_code, signal) => void (signal === 'SIGPIPE' && end()))
  watcher.once('error', () => undefined)
  watcher.unref()
  process.once('exit', () => watcher.kill())
}

/** Milliseconds: before the first event, which every run has, and after one. */
const [longestSilence, shortestSilence] = [30_000, 1_000]

/** Follows the run if that is wanted, and prints its result; otherwise says what was started. */
async function follow(
  api: Api,
  runId: string,
  { follow: isFollowed, json }: Starting,
  started: Pick<RunView, 'status' | 'status_reason'>,
): Promise<void> {
  if (isFollowed !== true) {
    if (json === true) writeJson({ id: runId, ...started })
    else writeLine(runId, started.status)
    return
  }
  say(`${runId}  ${api.server}/console/runs/${runId}`, 'dim')
  const run = await watched(api, runId, progressOf(api, runId))
  clearPassing()
  if (json === true) writeJson(run)
  else showEnd(run)
  failUnlessCompleted(run)
}

function failUnlessCompleted(run: RunView): void {
  if (run.status !== 'completed') process.exitCode = 1
}

function showEnd(run: RunView): void {
  const result = run.result ?? (Object.keys(run.outputs ?? {}).length > 0 ? run.outputs : null)
  if (run.values_hidden !== undefined) say(run.values_hidden.reason, 'yellow')
  else if (result !== null && result !== undefined)
    write(typeof result === 'string' ? result : JSON.stringify(result, null, 2))
  const seconds = run.duration_ms === null ? '' : ` after ${(run.duration_ms / 1_000).toFixed(1)} s`
  say(`${run.status}${seconds}: ${run.status_reason}`, toneOf(run.status))
  if (run.status === 'failed') say(`  run it again: countersign rerun ${run.id} --follow`, 'dim')
}

/** Ctrl-C ends the command only: the run goes on. */
async function watched(api: Api, runId: string, onEvent: (event: RunEvent) => void): Promise<RunView> {
  const stopped = new AbortController()
  const stop = (): void => stopped.abort()
  process.on('SIGINT', stop)
  try {
    return await followRun(api, runId, onEvent, stopped.signal)
  } catch (error) {
    if (!stopped.signal.aborted) throw error
    clearPassing()
    throw new Failure(
      `the run goes on: \`countersign logs ${runId} --follow\` shows it, \`countersign cancel ${runId}\` ends it`,
      130,
    )
  } finally {
    // A second Ctrl-C must not cut off what is said about the first one.
    if (!stopped.signal.aborted) process.off('SIGINT', stop)
  }
}

const quiet: ReadonlySet<string> = new Set(['step.decided', 'approval.created', 'run.queued', 'run.started'])

/** Says each event. Items of a `for_each` are only counted. */
function progressOf(api: Api, runId: string): (event: RunEvent) => void {
  const items = new Map<string, number>()
  return (event) => {
    const { step_id: step, item_index: item, approval_id: approval, type } = event
    if (
      step !== null &&
      step !== undefined &&
      item !== null &&
      item !== undefined &&
      type === 'step.completed'
    ) {
      const done = (items.get(step) ?? 0) + 1
      items.set(step, done)
      showPassing(`${step}: ${done} items are done`)
      return
    }
    if (quiet.has(type)) return
    clearPassing()
    say(wordsOf(event), toneOf(type.split('.')[1] ?? ''))
    if (type === 'step.held' && approval !== null && approval !== undefined)
      say(
        `  decide it: countersign approve ${approval}, or ${api.server}/console/approvals/${approval}`,
        'dim',
      )
    if (type === 'run.awaiting_approval')
      say(`  whoever may decide it finds it with \`countersign approvals --run ${runId}\``, 'dim')
  }
}

function wordsOf(event: RunEvent): string {
  const {
    type,
    step_id: step,
    tool,
    item_index: item,
    verdict,
    rule_name: rule,
    approval_id: approval,
    reused_from: earlier,
  } = event
  const place = `${step ?? ''}${typeof item === 'number' ? `[${item}]` : ''}`
  const words = [
    earlier === undefined ? type : 'step.taken_over',
    place,
    tool ?? '',
    verdict ?? '',
    typeof rule === 'string' ? `(rule \`${rule}\`)` : '',
    earlier === undefined ? '' : `(from ${earlier})`,
    approval ?? '',
    event.reason ?? '',
    event.error === undefined || event.error === null ? '' : `${event.error.code}: ${event.error.message}`,
  ]
  return words.filter((each) => each !== '').join(' ')
}
