import { workflowDefinition, type WorkflowDefinition } from '../../contract/definition.ts'
import { checkDefinition } from '../../contract/definition-check.ts'
import type { PollSettings } from '../../db/schema/triggers.ts'
import { headline, readAs, type FieldIssue } from '../../policy/issues.ts'
import { getTool } from '../../tools/index.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { PresentCaller } from '../access/recheck.ts'
import { DomainError } from '../errors.ts'
import { originOf } from '../runs/values/authors.ts'
import { deploy, insertWorkflow, lockWorkflow } from '../workflows/workflows.ts'
import { hashOf } from '../../shared/canonical-json.ts'
import { pollIssues } from './poll-items.ts'

/* What a poll reads, and the workflow of its own that makes the call. */

/** The only step of the workflow. */
export const pollStep = 'read'

const definitionOf = ({ tool, params }: PollSettings) => ({ steps: [{ id: pollStep, tool, params }] })

export const pollDefinition = (settings: PollSettings): WorkflowDefinition =>
  workflowDefinition.parse(definitionOf(settings))

/** Throws `validation_error`. A call that changes something must not be repeated every few seconds. */
export function requireSoundPoll(settings: PollSettings): void {
  const tool = getTool(settings.tool)
  const issues: FieldIssue[] =
    tool !== undefined && tool.sideEffect !== 'read'
      ? [
          {
            path: 'poll.tool',
            message: `\`${tool.name}\` does more than read: a poll takes only a tool that reads`,
          },
        ]
      : [...callIssues(settings), ...pollIssues(settings)]
  if (issues.length > 0)
    throw new DomainError('validation_error', headline('the poll is not valid', issues), issues)
}

function callIssues(settings: PollSettings): FieldIssue[] {
  const before = 'steps.0.'
  const read = readAs(workflowDefinition, definitionOf(settings))
  const issues = read.ok ? checkDefinition(read.value, { get: getTool }) : read.issues
  return issues.map(({ path, message }) => ({
    path: path.startsWith(before) ? `poll.${path.slice(before.length)}` : 'poll',
    message: message.replace(`step \`${pollStep}\`: `, ''),
  }))
}

/** In the transaction that saves the trigger. Its author is whoever saves it. */
export async function insertPollWorkflow(
  tx: ChainTx,
  caller: PresentCaller,
  id: string,
  { triggerId, name, settings }: { triggerId: string; name: string; settings: PollSettings },
): Promise<void> {
  const input = { name: nameOf(name), description: '', definition: pollDefinition(settings) }
  await insertWorkflow(tx, caller, id, input, { pollOf: triggerId })
}

const nameOf = (triggerName: string): string => `Poll of ${triggerName}`

/** A call that has changed is a new version. */
export async function changePollWorkflow(
  tx: ChainTx,
  caller: PresentCaller,
  id: string,
  { name, before, settings }: { name: string; before: PollSettings; settings: PollSettings },
): Promise<void> {
  const definition = pollDefinition(settings)
  const { current_version: current } = await lockWorkflow(tx, id)
  const version = hashOf(definition) === hashOf(pollDefinition(before)) ? current : current + 1
  await tx.trx
    .updateTable('workflows')
    .set({ name: nameOf(name), current_version: version, updated_at: tx.now })
    .where('id', '=', id)
    .execute()
  if (version === current) return
  const origin = await originOf(tx.trx, id, { current, definition })
  await deploy(tx, caller, { id, version, definition, message: '', origin })
}

/** The runs of its calls stay. */
export const deletePollWorkflow = (tx: ChainTx, id: string): Promise<unknown> =>
  tx.trx.updateTable('workflows').set({ deleted_at: tx.now }).where('id', '=', id).execute()
