/**
 * Changes a generated document in place, so that generators of clients read the document correctly:
 * - zod-to-openapi writes `allOf` for a field that refers to a named part, if the field may be null or has its own
 *   description. But null never fits an `allOf`. If the field may be null, `tidy` writes `anyOf` with the part and
 *   null. Otherwise `tidy` writes a reference with a description.
 * - `tidy` moves a default into the description. Generators treat a field with a default as always present. This is
 *   right for answers. But a named part can also be in a body, and there a client must be able to leave the field out.
 */
export function tidy(document: object): void {
  const { paths, components } = document as { paths?: object; components?: { schemas?: object } }
  for (const [name, { type }] of Object.entries(components?.schemas ?? {}) as [string, Rest][])
    if (Array.isArray(type))
      throw new Error(`\`${name}\` allows null: name it before the parts that contain it`)
  visit(components?.schemas)
  visit(paths, true)
}

interface Part {
  allOf?: readonly [{ readonly $ref: string }, Rest]
  anyOf?: readonly object[]
  $ref?: string
  description?: string | undefined
  default?: unknown
  properties?: Record<string, Part>
}
interface Rest {
  readonly type?: unknown
  readonly description?: string
  readonly default?: unknown
}

/**
 * If `keepsDefaults` is true, fields keep their `default`. This is for `paths`, where only query parameters have a
 * default. No answer contains a query parameter.
 */
function visit(value: unknown, keepsDefaults = false): void {
  if (typeof value !== 'object' || value === null) return
  const part = value as Part
  if (isReferenceWithMore(part)) split(part)
  if (!keepsDefaults) Object.values(part.properties ?? {}).forEach(tellDefault)
  // An example is a value and not a schema, so it stays as it is.
  for (const [name, each] of Object.entries(part)) if (name !== 'example') visit(each, keepsDefaults)
}

function isReferenceWithMore(part: Part): part is Part & Required<Pick<Part, 'allOf'>> {
  return Array.isArray(part.allOf) && part.allOf.length === 2 && '$ref' in part.allOf[0]
}

function split(part: Part & Required<Pick<Part, 'allOf'>>): void {
  const [reference, { type, description, default: value, ...unknown }] = part.allOf
  const others = Object.keys(unknown)
  if (others.length > 0)
    throw new Error(`${reference.$ref} is used with \`${others.join('`, `')}\`: name that part too`)
  delete (part as Part).allOf
  if (Array.isArray(type) && type.includes('null')) part.anyOf = [reference, { type: 'null' }]
  else part.$ref = reference.$ref
  if (description !== undefined) part.description = description
  if (value !== undefined) part.default = value
}

function tellDefault(property: Part): void {
  if (isReferenceWithMore(property)) split(property)
  if (!('default' in property)) return
  const words = `default: \`${JSON.stringify(property.default)}\``
  property.description = property.description === undefined ? words : `${property.description}; ${words}`
  delete property.default
}
