import { z } from 'zod'
import { whenOperators } from '../policy/operators/index.ts'
import { categorySlug, groupName, nameField, textField, workflowSlug } from '../policy/text.ts'
import { kindFields, kindIssue } from '../steps/index.ts'
import { inputDeclaration } from './inputs.ts'
import { jsonValue } from './json.ts'

export const mostSteps = 1000
/** Maximum number of items of one `for_each`. */
export const mostItems = 10_000
/** Items of one `for_each` that run at the same time. */
const mostParallel = 50

const comparison = z.strictObject({
  value: jsonValue,
  operator: z.enum(whenOperators),
  compare: jsonValue.optional(),
})

const ifSkipped = z.enum(['run', 'skip']).meta({
  description:
    '`skip`: the step is skipped if all steps that it depends on were skipped. `run` (the default): it runs, and their outputs are null',
})

const step = z
  .strictObject({
    id: textField(100),
    ...kindFields,
    depends_on: z.array(textField(100)).max(mostSteps).optional(),
    /**
     * One template that gives true or false, or a comparison. `value` and `compare` may have templates. With the
     * operator `exists`, a missing `compare` means true.
     */
    when: z.union([textField(10_000), comparison]).optional(),
    /** A list of at most `mostItems` items, or a template that resolves to such a list. */
    for_each: z
      .union([
        textField(10_000),
        jsonValue
          .refine((value) => Array.isArray(value), 'must be a template or a list')
          .meta({ type: 'array', items: {}, maxItems: mostItems }),
      ])
      .optional(),
    parallel: z.int().min(1).max(mostParallel).optional().meta({
      description:
        'For `for_each`: so many items run at the same time. An item that waits for a person keeps its place, so with 1 the items run one after the other, in order',
    }),
    if_skipped: ifSkipped.optional(),
    otherwise: jsonValue.optional().meta({
      description:
        'With `on_error: continue`: the output of the step, or of an item, that ends badly, in place of null. A plain value, without templates',
    }),
    on_error: z
      .enum(['fail', 'continue'])
      .optional()
      .meta({
        description:
          '`continue`: the run continues when the step, or an item of it, fails, is denied, rejected or expires; its output is ' +
          'null, and so is every path into it, as for a step or an item that `when` skips',
      }),
    summary: textField(500, 0).optional(),
  })
  .superRefine((given, context) => {
    const issue = kindIssue(given)
    if (issue !== null) context.addIssue({ code: 'custom', path: [issue.path], message: issue.message })
  })
  .overwrite((given) => (given.tool === undefined ? given : { ...given, params: given.params ?? {} }))

/** Groups whose members see the values of the version's runs. */
export const readers = z.array(groupName).max(20)

/** Roles and names of groups. Without it, every member may start runs. */
export const runBy = z
  .array(
    z.string().regex(/^[a-z][a-z0-9_-]{0,63}$/, 'must be a role or the name of a group, such as `finance`'),
  )
  .min(1, 'name at least one role or group or leave it out')
  .max(20)

/** `checkDefinition` checks references, tools and the graph. */
export const workflowDefinition = z.strictObject({
  inputs: z.record(textField(100), inputDeclaration).optional(),
  steps: z
    .array(step)
    .min(1, 'a workflow has at least one step')
    .max(mostSteps, `a workflow has at most ${mostSteps.toLocaleString('en-US')} steps`),
  result: z.record(nameField(100), jsonValue).optional(),
  categories: z.array(categorySlug).max(20).optional(),
  /** For all steps that do not say it themselves. */
  if_skipped: ifSkipped.optional(),
  readers: readers.optional(),
  run_by: runBy.optional(),
})

/** A definition as authors write it, also in a file: its names stand beside the stored one. */
export const definitionDocument = workflowDefinition.extend({
  $schema: textField(2_000)
    .optional()
    .meta({ description: 'For editors: the address of `GET /workflow-schema`.' }),
  name: nameField(200).optional(),
  slug: workflowSlug.optional(),
  description: textField(2_000, 0).optional(),
})
export type DefinitionDocument = z.infer<typeof definitionDocument>

export type WorkflowDefinition = z.infer<typeof workflowDefinition>
export type WorkflowStep = WorkflowDefinition['steps'][number]

export const skipsWithOthers = (
  definition: Pick<WorkflowDefinition, 'if_skipped'>,
  step: Pick<WorkflowStep, 'if_skipped'>,
): boolean => (step.if_skipped ?? definition.if_skipped) === 'skip'
