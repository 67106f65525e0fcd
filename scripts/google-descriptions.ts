import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { format } from 'prettier'

/*
 * Writes parts of Google's published API descriptions (discovery documents). The tests check Google's stand-in against
 * these parts. Texts for people are left out, and so are methods that Countersign does not use.
 *
 *   pip download --no-deps google-api-python-client==2.202.0 && unzip -q google_api_python_client-*.whl
 *   node scripts/google-descriptions.ts googleapiclient/discovery_cache/documents
 */

const source = 'google-api-python-client 2.202.0'

interface Schema {
  readonly $ref?: string
  readonly type?: string
  readonly format?: string
  readonly enum?: readonly string[]
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: Schema
}
interface Method {
  readonly id: string
  readonly httpMethod: string
  readonly path: string
  readonly parameters?: Readonly<Record<string, Schema & { location: string; required?: boolean }>>
  readonly request?: { readonly $ref: string }
  readonly response?: { readonly $ref: string }
  readonly mediaUpload?: { readonly protocols: { readonly simple: { readonly path: string } } }
}
interface Description {
  readonly revision: string
  readonly servicePath: string
  readonly parameters: Method['parameters']
  readonly schemas: Readonly<Record<string, Schema>>
  readonly resources: Readonly<Record<string, Resource>>
}
interface Resource {
  readonly methods?: Readonly<Record<string, Method>>
  readonly resources?: Readonly<Record<string, Resource>>
}

const used: Readonly<Record<string, readonly string[]>> = {
  'calendar.v3': ['calendar.events.get', 'calendar.events.insert', 'calendar.events.list'],
  'docs.v1': ['docs.documents.get'],
  'drive.v3': ['drive.files.create', 'drive.files.get', 'drive.files.list', 'drive.permissions.list'],
  'sheets.v4': [
    'sheets.spreadsheets.batchUpdate',
    'sheets.spreadsheets.developerMetadata.search',
    'sheets.spreadsheets.get',
    'sheets.spreadsheets.values.get',
  ],
}
/**
 * From each of these schemas, only these properties are written. The other properties refer to most of Google's other
 * schemas, so these would have to be written too.
 */
const kept: Readonly<Record<string, readonly string[]>> = {
  Request: ['appendCells', 'createDeveloperMetadata', 'deleteDeveloperMetadata'],
  Response: ['createDeveloperMetadata', 'deleteDeveloperMetadata'],
  Sheet: ['properties', 'data', 'developerMetadata'],
  CellData: ['userEnteredValue', 'effectiveValue', 'formattedValue'],
  Spreadsheet: ['spreadsheetId', 'properties', 'sheets', 'spreadsheetUrl', 'developerMetadata'],
  GridData: ['startRow', 'startColumn', 'rowData'],
}

function bare(schema: Schema): Schema {
  const { $ref, type, format: kind, enum: values, items, properties, additionalProperties } = schema
  const each = (all: Readonly<Record<string, Schema>>) =>
    Object.fromEntries(Object.entries(all).map(([name, one]) => [name, bare(one)]))
  return {
    ...($ref === undefined ? {} : { $ref }),
    ...(type === undefined ? {} : { type }),
    ...(kind === undefined ? {} : { format: kind }),
    ...(values === undefined ? {} : { enum: values }),
    ...(items === undefined ? {} : { items: bare(items) }),
    ...(properties === undefined ? {} : { properties: each(properties) }),
    ...(additionalProperties === undefined ? {} : { additionalProperties: bare(additionalProperties) }),
  }
}

const refsOf = (value: unknown): string[] =>
  [...JSON.stringify(value).matchAll(/"\$ref":"(\w+)"/g)].map(([, name = '']) => name)

function methodsOf({ methods = {}, resources = {} }: Resource): Method[] {
  return [...Object.values(methods), ...Object.values(resources).flatMap(methodsOf)]
}

function trimmed(name: string, whole: Description): object {
  const parametersOf = (all: Method['parameters'] = {}) =>
    Object.fromEntries(
      Object.entries(all).map(([key, one]) => [
        key,
        { ...bare(one), location: one.location, ...(one.required === true ? { required: true } : {}) },
      ]),
    )
  const methods = methodsOf({ resources: whole.resources })
    .filter(({ id }) => used[name]?.includes(id))
    .map((method) => ({
      id: method.id,
      httpMethod: method.httpMethod,
      path: `/${whole.servicePath}${method.path}`,
      uploadPath: method.mediaUpload?.protocols.simple.path,
      parameters: parametersOf({ ...whole.parameters, ...method.parameters }),
      request: method.request?.$ref,
      response: method.response?.$ref,
    }))
  const schemas: Record<string, Schema> = {}
  const wanted = methods.flatMap(({ request, response }) => [request, response])
  for (const ref of wanted) {
    if (ref === undefined || schemas[ref] !== undefined) continue
    const { properties = {}, ...rest } = bare(whole.schemas[ref] ?? {})
    const names = Object.keys(properties).filter((each) => kept[ref]?.includes(each) ?? true)
    schemas[ref] = {
      ...rest,
      properties: Object.fromEntries(names.map((each) => [each, properties[each] as Schema])),
    }
    wanted.push(...refsOf(schemas[ref]))
  }
  return { source, revision: whole.revision, methods, schemas }
}

const [folder = '.'] = process.argv.slice(2)
for (const name of Object.keys(used)) {
  const whole = JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8')) as Description
  const path = new URL(`../test/support/google/descriptions/${name}.json`, import.meta.url)
  writeFileSync(path, await format(JSON.stringify(trimmed(name, whole)), { parser: 'json', printWidth: 110 }))
}
