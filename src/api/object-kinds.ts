import { z } from 'zod'
import {
  declaredKinds,
  organizationName,
  placeOf,
  policyName,
  type Declared,
  type DeclaredKind,
} from '../governance/declared/declared.ts'
import { deepestJson } from '../contract/json.ts'
import type { Unread } from '../governance/declared/check.ts'
import { DomainError, type ErrorDetail } from '../governance/errors.ts'
import { readAs } from '../policy/issues.ts'
import { nameField } from '../policy/text.ts'
import type { Json } from '../policy/types.ts'
import { nextTurn } from '../shared/time-slices.ts'
import { requireFlawless } from './definition-mistakes.ts'
import { ApiError } from './errors.ts'
import { defaultBodyLimit, mostValues, sizeOf } from './json-body.ts'
import { governancePatch, roleOverrideBody, toolPolicyBody } from './routes/governance.ts'
import { groupBody } from './routes/groups.ts'
import { ruleBodies } from './routes/rules.ts'
import { withPeople } from '../governance/workflows/workflows.ts'
import { bodyValues, newWorkflow, workflowBody } from './routes/workflows.ts'
import { anyJson } from './schemas/common.ts'

/* Reads the objects of an application of files: each kind in the form that its own routes take. */

export const longestPath = 300
const path = nameField(longestPath)

/** A definition is read apart, so that all of its mistakes are told at once. */
const workflowFile = workflowBody
  .omit({ organization_id: true })
  .extend({ definition: z.record(z.string(), anyJson) })

interface Place {
  readonly at: number
  readonly path: string | null
}

/** Milliseconds, after which the thread works for other requests. */
const slice = 5

/** With the mistakes of all objects that cannot be read. */
export async function readDeclared(
  given: readonly Readonly<Record<string, unknown>>[],
): Promise<{ readonly objects: Declared[]; readonly unread: Unread }> {
  const mistakes: ErrorDetail[] = []
  const objects: Declared[] = []
  const groups: string[] = []
  let began = performance.now()
  for (const [at, { kind, path: file, ...body }] of given.entries()) {
    const read = readAs(path.optional(), file)
    const place: Place = { at, path: read.ok ? (read.value ?? null) : null }
    if (!read.ok)
      mistakes.push({ path: `objects[${at}].path`, message: read.issues[0]?.message ?? 'is wrong' })
    try {
      refuseLarge(kind, body)
      objects.push(readOne(kind, body, place))
    } catch (error) {
      mistakes.push(...mistakesOf(error, place))
      if (kind === 'group') groups.push(String(body['name']))
    }
    if (performance.now() - began < slice) continue
    await nextTurn()
    began = performance.now()
  }
  return { objects, unread: { mistakes, groups } }
}

/** As the routes of one object, whose bodies have these limits. */
function refuseLarge(kind: unknown, body: object): void {
  const most = kind === 'workflow' ? bodyValues : mostValues
  const text = JSON.stringify(body)
  if (Buffer.byteLength(text) > defaultBodyLimit || sizeOf(text, most, deepestJson).values > most)
    throw new DomainError(
      'validation_error',
      `the object has more than ${defaultBodyLimit / 1024 / 1024} MiB or ${most.toLocaleString('en-US')} values: make it smaller`,
    )
}

function mistakesOf(error: unknown, place: Place): ErrorDetail[] {
  if (!(error instanceof DomainError) && !(error instanceof ApiError)) throw error
  const { details, message } = error
  return details.length === 0
    ? [{ path: placeOf(place), message }]
    : details.map((detail) => ({ path: placeOf(place, detail.path), message: detail.message }))
}

function readOne(kind: unknown, body: object, place: Place): Declared {
  switch (kind) {
    case 'organization':
      return { kind, name: organizationName, ...place, body: as(governancePatch, body) }
    case 'rule': {
      const rule = as(ruleBodies.rule.body, body)
      return { kind, name: rule.name, ...place, body: rule }
    }
    case 'label_rule': {
      const rule = as(ruleBodies.label_rule.body, body)
      return { kind, name: rule.name, ...place, body: rule }
    }
    case 'group': {
      const { name, ...group } = as(groupBody, body)
      return { kind, name, ...place, body: group }
    }
    case 'tool_policy': {
      const { tool_name: tool, role, ...policy } = as(toolPolicyBody, body)
      return { kind, name: policyName(tool, role), ...place, body: policy }
    }
    case 'role_override': {
      const { tool_name: tool, role, ...override } = as(roleOverrideBody, body)
      return { kind, name: policyName(tool, role), ...place, body: override }
    }
    case 'workflow': {
      const { definition, ...rest } = as(workflowFile, body)
      const read = newWorkflow({ ...rest, definition: requireFlawless(definition as Json) })
      const { slug, name, description, protected: isProtected } = read
      if (slug == null) throw mistake('slug', 'is missing: it names the workflow in files')
      const whole = withPeople(read.definition, read)
      return {
        kind,
        name: slug,
        ...place,
        body: {
          name,
          description,
          definition: whole,
          ...(isProtected === undefined ? {} : { protected: isProtected }),
        },
      }
    }
    default:
      throw mistake('kind', `must be ${declaredKinds.map((each: DeclaredKind) => `\`${each}\``).join(', ')}`)
  }
}

const mistake = (field: string, message: string): DomainError =>
  new DomainError('validation_error', message, [{ path: field, message }])

function as<S extends z.ZodType>(schema: S, body: unknown): z.output<S> {
  const read = readAs(schema, body)
  if (read.ok) return read.value as z.output<S>
  throw new DomainError('validation_error', 'the object is not valid', read.issues)
}
