import type { Command } from 'commander'
import type { AnswerOf, BodyOf } from '../api/routes/index.ts'
import { shownLine } from '../shared/shown-text.ts'
import { apiOf, command, listed, positive, type Shared } from './command.ts'
import { Failure, Refusal } from './failure.ts'
import { inCommands, type Api } from './http.ts'
import { paramOf } from './rules.ts'
import { ago, confirm, say, toneOf, writeJson, writeLine, writeTable } from './terminal.ts'

type Approval = AnswerOf<'GET /approvals/{id}'>

export function addApprovalCommands(program: Command): void {
  command(program, 'approvals', 'list what waits for a decision')
    .option('--all', 'also what others must decide')
    .option('--run <run>', 'only those of this run')
    .option('-n, --limit <number>', 'at most so many', positive, 20)
    .action(list)
  deciding(program, 'approve', 'show what would be sent, ask, and approve exactly this').action(
    (id: string, options: Deciding) => decide('approve', id, options),
  )
  deciding(program, 'reject', 'show what would be sent, ask, and reject it')
    .option(
      '--request-changes',
      'the requester edits the call and asks again; say with `-c` what should change',
    )
    .action((id: string, options: Deciding) => decide('reject', id, options))
  deciding(program, 'revise', 'edit a held call, which is then decided anew')
    .option('-p, --param <name=value>', 'the new value of a parameter; repeat it for others', listed, [])
    .action(revise)
}

const deciding = (program: Command, verb: string, what: string): Command =>
  command(program, `${verb} <id>`, what)
    .option('-c, --comment <text>', 'why; people read it, and the receipt keeps it')
    .option('-y, --yes', 'do not ask')

interface Deciding extends Shared {
  readonly comment?: string
  readonly yes?: true
  readonly requestChanges?: true
}

async function list(options: Shared & { all?: true; run?: string; limit: number }): Promise<void> {
  const { data } = await apiOf().call('GET /approvals', {
    query: {
      status: 'pending',
      limit: String(Math.min(options.limit, 200)),
      ...(options.all === true || options.run !== undefined ? {} : { mine: 'true' }),
      ...(options.run === undefined ? {} : { run_id: options.run }),
    },
  })
  if (options.json === true) return writeJson(data)
  writeTable(
    ['APPROVAL', 'RISK', 'WHAT', 'FOR', 'SINCE', 'ENDS', 'RULE'],
    data.map((each) => [
      each.id,
      { text: each.risk.level, style: each.risk.level === 'low' ? undefined : 'yellow' },
      each.kind === 'revision' ? `changes requested: ${titleOf(each)}` : titleOf(each),
      each.requester_email ?? each.requested_by,
      process.stdout.isTTY ? ago(each.created_at) : each.created_at,
      process.stdout.isTTY ? ago(each.expires_at) : (each.expires_at ?? ''),
      each.rule_name ?? '',
    ]),
    options.all === true ? 'nothing waits for a decision' : 'nothing waits for you',
  )
}

const titleOf = ({ summary, preview, tool, kind }: Approval): string =>
  summary ?? preview?.title ?? tool ?? kind

async function decide(verb: 'approve' | 'reject', id: string, options: Deciding): Promise<void> {
  const { requestChanges = false, comment } = options
  if (requestChanges && comment === undefined)
    throw new Failure('say what should change: add `-c TEXT`, which the requester reads')
  const api = apiOf()
  const approval = await api.call('GET /approvals/{id}', { params: { id } })
  const link = approval.console_url
  if (approval.kind === 'ask')
    throw new Failure(`a question has an answer and no votes: answer it at ${link}`)
  if (approval.kind === 'resolution')
    throw new Failure(`nobody knows whether this call was made: look, and say it at ${link}`)
  // With `--yes` too: what was decided stands in the log of a job.
  const covered = await coveredBy(api, approval)
  show(approval, covered)
  const refused = approval.detail?.vote_refused ?? null
  if (refused !== null) throw new Failure([inCommands(refused), `the approval is at ${link}`])
  if (covered === null && verb === 'approve')
    throw new Failure(`this key cannot see all that the approval covers: look, and decide it at ${link}`)
  const isEnd = requestChanges && approval.detail?.can_be_edited !== true
  if (isEnd) say('nobody can edit this call: to request changes ends it, as to reject it does', 'yellow')
  const question =
    verb === 'approve'
      ? 'Approve exactly this?'
      : requestChanges && !isEnd
        ? 'Request these changes?'
        : 'Reject it?'
  if (options.yes !== true && !(await confirm(question))) throw new Failure('nothing was decided')
  report(options, await vote(api, verb, id, { comment, requestChanges }))
}

async function revise(id: string, options: Deciding & { param: readonly string[] }): Promise<void> {
  const api = apiOf()
  const approval = await api.call('GET /approvals/{id}', { params: { id } })
  const { params: before, console_url: link } = approval
  if (before === undefined) throw new Failure(`this key cannot see the call: edit it at ${link}`)
  const isText = (name: string): boolean => typeof before[name] === 'string'
  const params = Object.fromEntries(options.param.map((text) => paramOf(text, isText)))
  if (options.param.length === 0) throw new Failure('say what changes: add `-p name=value`')
  show(approval, { ...before, ...params })
  if (options.yes !== true && !(await confirm('Ask for exactly this?')))
    throw new Failure('nothing was edited')
  const body = { params, comment: options.comment ?? '' } as BodyOf<'POST /approvals/{id}/revise'>
  report(options, await api.call('POST /approvals/{id}/revise', { params: { id }, body }))
}

type Covered = Readonly<Record<string, unknown>>

/** The parameters of a call, or the inputs and steps of a whole run. null if the key may not see all of it. */
async function coveredBy(
  api: Api,
  { kind, params, run_id: id, workflow_id: workflow }: Approval,
): Promise<Covered | null> {
  if (kind !== 'run') return params ?? null
  if (id === null || workflow === null) return null
  try {
    const run = await api.call('GET /runs/{id}', { params: { id } })
    const version = String(run.workflow_version)
    const { definition } = await api.call('GET /workflows/{id}/versions/{version}', {
      params: { id: workflow, version },
    })
    if (run.inputs === undefined) return null
    return {
      ...Object.fromEntries(Object.entries(run.inputs).map(([name, value]) => [`input.${name}`, value])),
      ...Object.fromEntries(definition.steps.map(({ id: step, ...rest }) => [`step ${step}`, rest])),
    }
  } catch (error) {
    if (error instanceof Refusal && (error.status === 403 || error.status === 404)) return null
    throw error
  }
}

function vote(
  api: Api,
  verb: 'approve' | 'reject',
  id: string,
  { comment = '', requestChanges }: { comment: string | undefined; requestChanges: boolean },
): Promise<Approval> {
  return verb === 'approve'
    ? api.call('POST /approvals/{id}/approve', { params: { id }, body: { comment } })
    : api.call('POST /approvals/{id}/reject', {
        params: { id },
        body: { comment, ...(requestChanges ? { request_changes: true } : {}) },
      })
}

function report({ json }: Shared, decided: Approval): void {
  if (json === true) return writeJson(decided)
  writeLine(decided.id, decided.status)
  const missing =
    decided.approvals_needed - decided.votes.filter(({ decision }) => decision === 'approve').length
  if (decided.status === 'pending') say(`your vote counts; at least ${Math.max(1, missing)} more is missing`)
}

/** Everything that an approver must see. A name is one line, and each line of a value is indented, so that it cannot look like one of ours. */
function show(approval: Approval, covered: Covered | null): void {
  const { preview, detail, risk } = approval
  say(titleOf(approval), 'bold')
  const facts: readonly (readonly [string, string | null | undefined])[] = [
    ['status', approval.status],
    ['tool', approval.tool],
    ['goes to', approval.destination],
    ['for', approval.requester_email],
    ['workflow', approval.workflow_name],
    ['rule', approval.rule_name],
    ['why', detail?.explanation],
    ['labels', approval.labels.join(', ')],
    ['risk', [risk.level, ...risk.reasons].join('; ')],
    ['votes', approval.votes.map(({ email, decision }) => `${email} ${decision}`).join(', ')],
    ['expires', approval.expires_at],
  ]
  for (const [name, value] of facts)
    if (typeof value === 'string' && value !== '')
      field(name, value, name === 'status' ? toneOf(value) : undefined)
  if (approval.values_hidden !== undefined) say(approval.values_hidden.reason, 'yellow')
  say(headings[approval.kind] ?? 'what would be sent', 'bold')
  for (const [name, value] of Object.entries(covered ?? {}))
    field(name, typeof value === 'string' ? value : JSON.stringify(value, null, 2))
  if (preview !== undefined) showPreview(preview, covered ?? {})
}

const headings: Readonly<Record<string, string>> = { change: 'what would change', run: 'what would run' }

/** What the server has read for approvers besides the parameters, and what is to be looked at closely. */
function showPreview({ fields, note, diff }: NonNullable<Approval['preview']>, covered: Covered): void {
  for (const { name, value, said_by: host } of fields)
    if (host !== undefined) field(name, `${host} says: ${value}`)
    else if (!Object.hasOwn(covered, name)) field(name, value)
  for (const { name, note: closely } of fields)
    if (closely !== undefined) say(`  look closely at ${name}: ${closely}`, 'yellow')
  if (note !== undefined) say(`  ${note}`, 'yellow')
  if (diff === undefined) return
  if (diff.skipped > 0) say(`  the first ${diff.skipped} characters stay as they are`)
  field('replaces', diff.before ?? '(nothing)')
  field('with', diff.after)
}

function field(name: string, value: string, style?: Parameters<typeof say>[1]): void {
  const [first = '', ...more] = value.split('\n')
  say(`  ${shownLine(name).padEnd(10)} ${first}`, style)
  for (const line of more) say(`  ${' '.repeat(10)} ${line}`, style)
}
