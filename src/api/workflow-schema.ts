import { z } from 'zod'
import { definitionDocument } from '../contract/definition.ts'
import { outputForm } from '../contract/forms.ts'
import { catalog } from '../tools/index.ts'
import type { ToolDeclaration } from '../tools/kit/tool.ts'

type Schema = Record<string, unknown>

/** What stands in `{{ … }}` is text wherever a value of another type is wanted. */
const template = { type: 'string', pattern: '\\{\\{' }

/** The schema of a value, and at each place of it also of a template. */
function orTemplate(schema: unknown): unknown {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return schema
  const { properties, items, anyOf, type, ...rest } = schema as Schema
  const own = {
    ...rest,
    ...(type === undefined ? {} : { type }),
    ...(properties === undefined ? {} : { properties: mapped(properties as Schema) }),
    ...(items === undefined ? {} : { items: orTemplate(items) }),
    ...(anyOf === undefined ? {} : { anyOf: (anyOf as unknown[]).map(orTemplate) }),
  }
  return { anyOf: [own, template] }
}

const mapped = (properties: Schema): Schema =>
  Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, orTemplate(each)]))

/** Where a tool takes or gives any value of JSON, its schema has a reference into itself. */
function withoutReferences(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutReferences)
  if (typeof schema !== 'object' || schema === null) return schema
  const { $ref: _, $defs: __, $schema: ___, ...rest } = schema as Schema
  return Object.fromEntries(Object.entries(rest).map(([name, each]) => [name, withoutReferences(each)]))
}

/** A step with this tool has its parameters. */
function rule(tool: ToolDeclaration): Schema {
  const schema = z.toJSONSchema(tool.params, { io: 'input', unrepresentable: 'any' })
  const { properties = {}, ...params } = withoutReferences(schema) as Schema
  const description = { description: tool.description }
  return {
    if: { properties: { tool: { const: tool.name } }, required: ['tool'] },
    // This is the word of JSON Schema, and nothing awaits it.
    // oxlint-disable-next-line unicorn/no-thenable
    then: {
      properties: { tool: description, params: { ...params, properties: mapped(properties as Schema) } },
    },
  }
}

/**
 * JSON Schema of a definition with the parameters of every tool, for editors. The outputs of the tools stand in
 * `$defs.outputs`. What an editor accepts, saving can still refuse: references are checked only there.
 */
export function workflowSchema(): Schema {
  const { $schema, ...document } = z.toJSONSchema(definitionDocument, {
    io: 'input',
    unrepresentable: 'any',
  }) as Schema
  const tools = Object.values(catalog) as readonly ToolDeclaration[]
  const { steps } = document['properties'] as { steps: Schema }
  const step = steps['items'] as Schema
  const properties = { ...(step['properties'] as Schema), tool: { enum: tools.map(({ name }) => name) } }
  return {
    $schema,
    title: 'Countersign workflow',
    ...document,
    properties: {
      ...(document['properties'] as Schema),
      steps: { ...steps, items: { ...step, properties, allOf: tools.map(rule) } },
    },
    $defs: {
      ...(document['$defs'] as Schema | undefined),
      outputs: Object.fromEntries(tools.map((tool) => [tool.name, withoutReferences(outputForm(tool))])),
    },
  }
}
