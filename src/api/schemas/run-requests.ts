import { z } from 'zod'
import { workflowDefinition } from '../../contract/definition.ts'
import { mostAttempts, mostResolved, onRepeats, runEnded, runStatuses } from '../../contract/status.ts'
import { mostRunsOfRerun } from '../../governance/runs/start/reruns.ts'
import { labelSlug } from '../../policy/text.ts'
import { mostLabels, tooManyLabels } from '../../policy/types.ts'
import { anyJson, named } from './common.ts'
import { words } from './runs.ts'

/* What callers send to start, repeat, preview, resolve and cancel runs. */

const inputLabels = z
  .record(z.string(), z.array(labelSlug).max(100))
  .refine((all) => Object.values(all).flat().length <= mostLabels, tooManyLabels('has'))
  .describe('labels by input name; every step that refers to the input carries them')

/** With an offset. */
const moment = z.iso.datetime({ offset: true })

const runFiles = z
  .array(z.string().max(100))
  .max(20)
  .describe('ids of uploaded files; templates name them as `{{input.uploaded_files}}`')

export const executeBody = named('ExecuteRequest', {
  inputs: z
    .record(z.string(), anyJson)
    .default({})
    .describe(
      '`{"from_run", "step", "path"?}` is the output of a completed step of a run that you can see, with its labels',
    ),
  input_labels: inputLabels.optional(),
  files: runFiles.optional(),
  time_zone: z.string().min(1).max(100).optional(),
  version: z.int().min(1).max(1_000_000_000).optional(),
})

export const rerunBody = named('RerunRequest', {
  from: z
    .union([z.enum(['failed', 'start']), z.array(z.string().min(1).max(100)).min(1).max(100)])
    .default('failed')
    .describe(
      '`failed`: what was completed and means the same is not made again. `start`: every step is made again. Or ids of steps: these, and those that depend on them',
    ),
  version: z
    .union([z.enum(['same', 'latest']), z.int().min(1).max(1_000_000_000)])
    .default('same')
    .describe('the version of the workflow'),
  inputs: z
    .record(z.string(), anyJson)
    .default({})
    .describe('inputs that replace those of the run; each keeps the labels that it had'),
  on_repeat: z
    .enum(onRepeats)
    .default('hold')
    .describe(
      'what becomes of a write or an egress that an earlier run has made with the same parameters: a person is asked, it is left out, or it is made again',
    ),
  unknown_outcomes: z
    .enum(['happened', 'did_not_happen'])
    .optional()
    .describe('what you know, after you have looked, about calls of earlier runs whose outcome is unknown'),
})

const ofMany = {
  from: z.enum(['failed', 'start']).default('failed'),
  version: z.enum(['same', 'latest']).default('same'),
  on_repeat: z.enum(onRepeats).default('hold'),
}

export const rerunFilter = named('RerunFilter', {
  run_ids: z.array(z.string().min(1).max(100)).min(1).max(mostRunsOfRerun).optional(),
  status: z
    .enum(runStatuses.filter(runEnded))
    .optional()
    .describe('`failed`, if there are no `run_ids` either'),
  workflow_id: z.string().min(1).max(100).optional(),
  requested_by: z.string().min(1).max(100).optional().describe('only for admins, who else mean everybody'),
  tool: z.string().min(1).max(100).optional().describe('a call of this tool did not complete'),
  since: moment.optional().describe('when the run was accepted'),
  until: moment.optional(),
})

export const manyBody = named('RerunManyRequest', {
  organization_id: z.string().optional(),
  filter: rerunFilter,
  ...ofMany,
  dry_run: z.boolean().default(false).describe('only says how many match'),
})

const previewedInputs = {
  inputs: z
    .record(z.string(), anyJson)
    .optional()
    .describe('as for `execute`; inputs may be missing, and are then unknown'),
  input_labels: inputLabels.optional(),
  files: runFiles.optional(),
}

const mocks = z
  .record(z.string(), anyJson)
  .optional()
  .describe('outputs that are assumed, by the id of the step: then each step shows its resolved parameters')

export const draftBody = named('DraftRequest', {
  organization_id: z.string().optional(),
  ...previewedInputs,
  mocks,
  definition: workflowDefinition,
})

export const previewBody = z
  .strictObject({
    ...previewedInputs,
    mocks,
    version: z.int().min(1).max(1_000_000_000).optional(),
    definition: workflowDefinition.optional().describe('a definition that need not be saved'),
  })
  .refine(({ version, definition }) => version === undefined || definition === undefined, {
    path: ['version'],
    message: 'give either `version` or `definition`',
  })
  .meta({ id: 'PreviewRequest' })

const item = z.int().min(0).max(10_000)

export const resolveBody = z
  .strictObject({
    item_index: item.nullable().optional(),
    item_indexes: z.array(item).min(1).max(mostResolved).optional(),
    all: z.literal(true).optional().describe('every call of the step whose outcome is unknown'),
    attempt: z
      .int()
      .min(1)
      .max(mostAttempts)
      .optional()
      .describe(
        'the attempt that you looked for: a call that has been made again since is 409, and `all` leaves it out',
      ),
    outcome: z.enum(['retry', 'done', 'fail']),
    output: anyJson.optional().describe('with `done`: the output of each of these calls'),
  })
  .refine(
    ({ item_index, item_indexes, all }) =>
      [item_index ?? undefined, item_indexes, all].filter((each) => each !== undefined).length < 2,
    'give one of `item_index`, `item_indexes` and `all`',
  )
  .refine(({ outcome, output }) => outcome === 'done' || output === undefined, {
    path: ['output'],
    message: 'is only for the outcome `done`: leave it out',
  })
  .meta({ id: 'ResolveRequest' })

export const cancelBody = named('CancelRequest', { reason: words.optional() })
