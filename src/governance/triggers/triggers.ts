import { sql } from 'kysely'
import { newId } from '../../contract/ids.ts'
import { peoplePath } from '../../contract/pages.ts'
import { restartLane } from '../../db/queries/lanes.ts'
import type { Db } from '../../db/schema/index.ts'
import type { PollSettings, TriggerSettings, WebhookSettings } from '../../db/schema/triggers.ts'
import { headline, type FieldIssue } from '../../policy/issues.ts'
import { actorOf, type Caller } from '../access/identity.ts'
import { requireRole, runAs, type PresentCaller } from '../access/recheck.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { ChangingRuns } from '../context.ts'
import { DomainError, errorAt, notFound } from '../errors.ts'
import { keepMade, type Once } from '../idempotency.ts'
import { growAs } from '../limits/storage.ts'
import { listPage, readPage, type Page, type PageRequest } from '../page.ts'
import { roleOfAccount } from '../people/service-accounts.ts'
import { findVersion } from '../runs/values/version-change.ts'
import { readVersion } from '../runs/values/version-cache.ts'
import { dropWaiting } from './firings.ts'
import { inputIssues } from './inputs.ts'
import { changePollWorkflow, deletePollWorkflow, insertPollWorkflow } from './poll-settings.ts'
import {
  firstDue,
  newSecret,
  requireKind,
  requireSound,
  settingsOf,
  type TriggerChange,
  type TriggerInput,
} from './settings.ts'
import {
  firingView,
  isPoll,
  openKept,
  sealKept,
  triggerView,
  type Kept,
  type TriggerRow,
  type TriggerView,
} from './trigger-view.ts'

export const mostOfWorkflow = 100
export const mostOfOrganization = 10_000
/** Each person counts as an author of every run. */
export const mostArmed = 20

/** The secret is there if the service has just made it. */
export type NewTrigger = TriggerView & { readonly secret: string | null }

/** Throws `validation_error`, and as `growAs`. */
export async function createTrigger(
  context: ChangingRuns,
  caller: Caller,
  workflowId: string,
  input: TriggerInput,
  once: Once | null = null,
): Promise<NewTrigger> {
  const { kind, settings } = settingsOf(input)
  const id = newId('trigger')
  await checkInputsOf(context, caller, workflowId, kind, input)
  const secret = kind === 'webhook' ? (input.secret ?? newSecret(settings as WebhookSettings)) : null
  requireSound(kind, settings, secret)
  const kept: Kept = { inputs: input.inputs, secret }
  const pollWorkflow = kind === 'poll' ? newId('workflow') : null
  const sealed = await sealKept(context.sealer, { organization_id: caller.organizationId, id }, kept)
  return growAs(context, caller, 'org.change', {
    action: 'create',
    bytes: sealed.sealed.length,
    async work(tx, now) {
      const present = await now()
      requireOwnerFor(present, input, settings)
      await requireRoom(tx, workflowId)
      await requireAccount(tx, input.service_account)
      if (pollWorkflow !== null)
        await insertPollWorkflow(tx, present, pollWorkflow, {
          triggerId: id,
          name: input.name,
          settings: settings as PollSettings,
        })
      const row = await tx.trx
        .insertInto('triggers')
        .values({
          id,
          organization_id: tx.organizationId,
          workflow_id: workflowId,
          name: input.name,
          kind,
          version: input.version === 'latest' ? null : input.version,
          service_account: input.service_account,
          untrusted: input.untrusted,
          settings: JSON.stringify(settings),
          ...sealed,
          armed_by: [caller.userId],
          with_factor: present.hasFactor,
          active_since: tx.now,
          paused_reason: null,
          next_due_at: firstDue(kind, settings, tx.now),
          poll_workflow_id: pollWorkflow,
          created_by: caller.userId,
          created_at: tx.now,
          updated_at: tx.now,
        })
        .returningAll()
        .executeTakeFirstOrThrow()
      await wake(tx, row)
      append(tx, caller, 'created', row)
      const shown = input.secret === undefined ? secret : null
      return keepMade(once, tx, { ...triggerView(context, row, kept), secret: shown })
    },
  })
}

/** Newest first: those of a workflow, or all of the organization. */
export async function listTriggers(
  context: Pick<ChangingRuns, 'config' | 'db' | 'sealer'>,
  organizationId: string,
  workflowId: string | null,
  page: PageRequest,
): Promise<Page<TriggerView>> {
  const query = context.db
    .selectFrom('triggers as t')
    .innerJoin('workflows as w', 'w.id', 't.workflow_id')
    .selectAll('t')
    .where('w.deleted_at', 'is', null)
    .where('t.organization_id', '=', organizationId)
    .$if(workflowId !== null, (some) => some.where('t.workflow_id', '=', workflowId))
  const { data, next_cursor } = await readPage(context.db, query, 'trigger', page, 't.id')
  return { data: await Promise.all(data.map((row) => shown(context, row))), next_cursor }
}

const shown = async (
  context: Pick<ChangingRuns, 'config' | 'sealer'>,
  row: TriggerRow,
): Promise<TriggerView> => triggerView(context, row, await openKept(context.sealer, row))

/** Throws `not_found`. */
export async function findTrigger(db: Db, organizationId: string, id: string): Promise<TriggerRow> {
  const row = await db
    .selectFrom('triggers')
    .selectAll()
    .where('id', '=', id)
    .where('organization_id', '=', organizationId)
    .executeTakeFirst()
  if (row === undefined) throw notFound('trigger', id)
  return row
}

export const readTrigger = async (
  context: Pick<ChangingRuns, 'config' | 'db' | 'sealer'>,
  organizationId: string,
  id: string,
): Promise<TriggerView> => shown(context, await findTrigger(context.db, organizationId, id))

/** Whoever changes or resumes it arms it. Throws `not_found`, and as `createTrigger`. */
export async function changeTrigger(
  context: ChangingRuns,
  caller: Caller,
  id: string,
  change: TriggerChange,
): Promise<NewTrigger> {
  const found = await findTrigger(context.db, caller.organizationId, id)
  const before = (await openKept(context.sealer, found)).inputs
  const { inputs = before, version = found.version ?? 'latest' } = change
  if (change.inputs !== undefined || change.version !== undefined)
    await checkInputsOf(context, caller, found.workflow_id, found.kind, { inputs, version })
  const grown = JSON.stringify(inputs).length - JSON.stringify(before).length
  return growAs(context, caller, 'org.change', {
    action: 'update',
    bytes: () => Promise.resolve(grown),
    work: (tx, now) => saveChange(context, caller, { tx, now }, id, change),
  })
}

interface Locked {
  readonly tx: ChainTx
  readonly now: () => Promise<PresentCaller>
}

async function saveChange(
  context: ChangingRuns,
  caller: Caller,
  { tx, now }: Locked,
  id: string,
  change: TriggerChange,
): Promise<NewTrigger> {
  const row = await findTrigger(tx.trx, tx.organizationId, id)
  const isOnlyPause = change.paused === true && Object.keys(change).length === 1
  const settings: TriggerSettings = change[row.kind] ?? row.settings
  const kept = await openKept(context.sealer, row)
  const made =
    change.new_secret === true && row.kind === 'webhook' ? newSecret(settings as WebhookSettings) : null
  const next: Kept = { inputs: change.inputs ?? kept.inputs, secret: change.secret ?? made ?? kept.secret }
  const untrusted = change.untrusted ?? row.untrusted
  if (!isOnlyPause) {
    requireKind(row.kind, change)
    const present = await now()
    requireOwnerFor(present, row, row.settings)
    requireOwnerFor(present, { untrusted }, settings)
    requireSound(row.kind, settings, next.secret)
    await requireAccount(tx, change.service_account ?? row.service_account)
    if (isPoll(row))
      await changePollWorkflow(tx, present, row.poll_workflow_id, {
        name: change.name ?? row.name,
        before: row.settings,
        settings: settings as PollSettings,
      })
  }
  const saved = await tx.trx
    .updateTable('triggers')
    .set({
      ...(await sealKept(context.sealer, row, next)),
      name: change.name ?? row.name,
      version:
        change.version === undefined ? row.version : change.version === 'latest' ? null : change.version,
      service_account: change.service_account ?? row.service_account,
      untrusted,
      settings: JSON.stringify(settings),
      ...(isOnlyPause ? {} : armed(row, await now(), caller)),
      ...activity(tx, row, change, settings, caller),
      updated_at: tx.now,
    })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
  if (saved.paused_reason !== null) await dropWaiting(tx, saved, 'the trigger was paused')
  await wake(tx, saved)
  append(tx, caller, 'updated', saved)
  return { ...triggerView(context, saved, next), secret: made }
}

type ActivityColumns = Partial<
  Pick<TriggerRow, 'paused_reason' | 'tells' | 'active_since' | 'next_due_at' | 'poll_run_id' | 'polled_at'>
>

/** A trigger that is resumed, or whose times change, begins anew: it makes up for nothing. */
function activity(
  tx: ChainTx,
  row: TriggerRow,
  { paused, schedule, poll }: TriggerChange,
  settings: TriggerSettings,
  caller: Caller,
): ActivityColumns {
  const isPaused = paused ?? row.paused_reason !== null
  const reason = isPaused ? (row.paused_reason ?? `paused by ${caller.email}`) : null
  const isNew = !isPaused && (row.paused_reason !== null || schedule !== undefined || poll !== undefined)
  if (!isNew) return { paused_reason: reason }
  return {
    paused_reason: reason,
    tells: false,
    active_since: tx.now,
    next_due_at: firstDue(row.kind, settings, tx.now),
    poll_run_id: null,
    polled_at: null,
  }
}

function armed(
  row: TriggerRow,
  { hasFactor }: PresentCaller,
  { userId }: Caller,
): Pick<TriggerRow, 'armed_by' | 'with_factor'> {
  const armed_by = row.armed_by.includes(userId) ? row.armed_by : [...row.armed_by, userId]
  if (armed_by.length <= mostArmed) return { armed_by, with_factor: hasFactor }
  throw errorAt(
    'validation_error',
    '',
    `${mostArmed} people have armed this trigger: make a new one in its place`,
  )
}

/** Its runs go on. Throws `not_found`. */
export async function deleteTrigger(context: ChangingRuns, caller: Caller, id: string): Promise<void> {
  await runAs(context, caller, 'org.change', async (tx) => {
    const row = await findTrigger(tx.trx, tx.organizationId, id)
    await tx.trx.deleteFrom('triggers').where('id', '=', id).execute()
    if (isPoll(row)) await deletePollWorkflow(tx, row.poll_workflow_id)
    await tx.trx.deleteFrom('lanes').where('kind', '=', 'trigger').where('id', '=', id).execute()
    append(tx, caller, 'deleted', row)
  })
}

/** Newest first. */
export const listFirings = (db: Db, triggerId: string, page: PageRequest) =>
  listPage(
    db,
    db.selectFrom('trigger_firings').selectAll().where('trigger_id', '=', triggerId),
    'firing',
    page,
    firingView,
  )

/** Throws `insufficient_role`. Whoever may not declare inputs harmless must not change what an owner declared so. */
function requireOwnerFor(
  { role }: PresentCaller,
  { untrusted }: Pick<TriggerRow, 'untrusted'>,
  settings: TriggerSettings,
): void {
  if (!untrusted || ('answer' in settings && settings.answer === 'result')) requireRole(role, 'owner')
}

async function requireAccount(tx: ChainTx, id: string): Promise<void> {
  const role = await roleOfAccount(tx, id)
  if (role === 'member') return
  const why =
    role === null
      ? `there is no such service account: an owner makes one at \`${peoplePath}#service-accounts\``
      : 'is only a viewer and cannot start runs: an owner makes it a member'
  throw errorAt('validation_error', 'service_account', why)
}

async function requireRoom(tx: ChainTx, workflowId: string): Promise<void> {
  const { rows } = await sql<{ own: number; all: number }>`
    select count(*) filter (where workflow_id = ${workflowId})::int as own, count(*)::int as all
    from triggers where organization_id = ${tx.organizationId}`.execute(tx.trx)
  const { own = 0, all = 0 } = rows[0] ?? {}
  if (own < mostOfWorkflow && all < mostOfOrganization) return
  throw new DomainError(
    'quota_exceeded',
    `a workflow has at most ${mostOfWorkflow} triggers, and an organization ${mostOfOrganization.toLocaleString('en-US')}: delete one first`,
  )
}

/** Throws `validation_error` for a version that is not there, or if a run could never start with such inputs. */
async function checkInputsOf(
  context: ChangingRuns,
  caller: Caller,
  workflowId: string,
  kind: TriggerRow['kind'],
  { inputs, version }: Pick<TriggerInput, 'inputs' | 'version'>,
): Promise<void> {
  const { current } = await findVersion(context.db, { caller, workflowId })
  const { definition } = await readVersion(
    context,
    workflowId,
    version === 'latest' ? current : version,
  ).catch((error: unknown) => {
    if (!(error instanceof DomainError) || error.code !== 'not_found') throw error
    const why = `the workflow has no version ${version}: give the number of one, or \`latest\``
    throw errorAt('validation_error', 'version', why)
  })
  const declared = definition.inputs ?? {}
  const unknown = Object.keys(inputs)
    .filter((name) => !Object.hasOwn(declared, name))
    .map((name) => ({ path: `inputs.${name}`, message: `the workflow declares no input \`${name}\`` }))
  const missing = Object.entries(declared)
    .filter(
      ([name, { required, default: value }]) =>
        required && value === undefined && !Object.hasOwn(inputs, name),
    )
    .map(([name]) => ({ path: `inputs.${name}`, message: `input \`${name}\` is required` }))
  const issues: FieldIssue[] = [...unknown, ...missing, ...inputIssues(kind, inputs)]
  if (issues.length > 0)
    throw new DomainError('validation_error', headline('the inputs do not fit the workflow', issues), issues)
}

/** The lane of a schedule or poll sleeps until its due time (schedule.ts). */
async function wake(tx: ChainTx, row: TriggerRow): Promise<void> {
  if (row.kind === 'webhook') return
  await restartLane({ kind: 'trigger', id: row.id, organizationId: row.organization_id }).execute(tx.trx)
}

function append(tx: ChainTx, caller: Caller, verb: 'created' | 'updated' | 'deleted', row: TriggerRow): void {
  tx.append({
    eventType: `trigger.${verb}`,
    action: verb.slice(0, -1),
    actor: actorOf(caller),
    workflowId: row.workflow_id,
    metadata: {
      trigger_id: row.id,
      name: row.name,
      kind: row.kind,
      account_id: row.service_account,
      workflow_version: row.version,
      untrusted: row.untrusted,
      paused: row.paused_reason !== null,
    },
  })
}
