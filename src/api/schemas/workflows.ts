import { z } from 'zod'
import { workflowDefinition } from '../../contract/definition.ts'
import { nameField, textField } from '../../policy/text.ts'
import { filter } from '../query.ts'
import { id, time } from './common.ts'

/** A workflow without its definition. */
export const workflowShape = {
  id,
  organization_id: id,
  name: z.string(),
  description: z.string(),
  version: z.int(),
  protected: z.boolean().describe('only admins may change or delete the workflow'),
  created_by: id,
  created_at: time,
  updated_at: time,
}

const name = nameField(200)
const description = textField(2000, 0)
const message = textField(2000, 0)
const isProtected = z
  .boolean()
  .optional()
  .describe('only an owner sets or clears it; then only admins may change or delete the workflow')

export const workflowBody = z.strictObject({
  organization_id: z.string().optional(),
  name,
  description: description.default(''),
  definition: workflowDefinition,
  protected: isProtected,
})
export const workflowChanges = z
  .strictObject({
    name: name.optional(),
    description: description.optional(),
    definition: workflowDefinition.optional(),
    message: message.optional(),
    protected: isProtected,
  })
  .refine(({ definition, message: said }) => said === undefined || definition !== undefined, {
    path: ['message'],
    error: 'describes a new version: give its `definition` too',
  })
export const rollbackBody = z.strictObject({ message: message.default('') })

/** Tags of a template. Two tags may not be equal or differ only in letter case, because people would confuse them. */
const tags = z
  .array(nameField(50))
  .max(20, 'a template has at most 20 tags')
  .superRefine((list, context) => {
    const folded = list.map((each) => each.trim().toLowerCase())
    const seen = new Set<string>()
    folded.forEach((each, index) => {
      if (seen.size < seen.add(each).size) return
      const repeated = `the tag \`${list[index]}\` is given twice: name each tag once`
      context.addIssue({ code: 'custom', message: repeated, path: [index] })
    })
  })

export const templateBody = z.strictObject({
  template_name: name,
  description: description.default(''),
  tags: tags.default([]),
  version: z.int().min(1).max(1_000_000_000).optional(),
})
export const deprecationBody = z.strictObject({
  reason: textField(2000),
  replacement_id: filter.nullable().default(null),
})
export const templateUseBody = z.strictObject({ name: name.optional(), description: description.optional() })
