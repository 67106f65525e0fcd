import { z } from 'zod'
import { integrations } from '../src/tools/index.ts'
import type { ErrorMeaning } from '../src/tools/kit/errors.ts'
import type { Ask, IntegrationDeclaration } from '../src/tools/kit/integration.ts'

/* The section of docs/tools.md on the services: their credentials and their errors, as src/tools declares them. */

export const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')

/** The part of JSON Schema that credentials have. */
interface Schema {
  readonly const?: string
  readonly description?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly oneOf?: readonly Schema[]
  readonly anyOf?: readonly Schema[]
}

/** Returns a credential of this form. */
const sampleOf = ({ const: only, properties }: Schema): unknown =>
  properties === undefined
    ? (only ?? '')
    : Object.fromEntries(Object.entries(properties).map(([name, field]) => [name, sampleOf(field)]))

/** Returns the requests with which a credential of this form is checked, in Markdown. */
async function checkOf({ check, grant }: IntegrationDeclaration, form: Schema): Promise<string> {
  const asked = grant === undefined ? [] : ['the exchange for an access token']
  const ask: Ask = async ({ method, path }) => {
    asked.push(`\`${method} ${path}\``)
    return { status: 418, json: undefined }
  }
  await check(sampleOf(form), ask)
  return asked.length === 0
    ? 'not checked, because each call is charged'
    : `checked with ${asked.join(', then ')}`
}

/** Returns a form of the credential in Markdown, with a line for each field that has a description. */
async function formOf(declaration: IntegrationDeclaration, form: Schema): Promise<string> {
  const { properties = {}, required = [] } = form
  const fields = Object.entries(properties).map(([name, { const: only }]) => {
    if (only !== undefined) return `${name}: "${only}"`
    return required.includes(name) ? name : `${name}?`
  })
  const described = Object.entries(properties).flatMap(([name, { description }]) =>
    description === undefined ? [] : [`  - \`${name}\`: ${description}`],
  )
  return [`- \`{${fields.join(', ')}}\`, ${await checkOf(declaration, form)}`, ...described].join('\n')
}

async function credentialOf(declaration: IntegrationDeclaration): Promise<string> {
  const schema = z.toJSONSchema(declaration.credential, { io: 'input' }) as Schema
  const forms = schema.oneOf ?? schema.anyOf ?? [schema]
  return (await Promise.all(forms.map((form) => formOf(declaration, form)))).join('\n')
}

/** Errors in a row that mean the same share a line of the table. */
function errorsOf({ errors }: IntegrationDeclaration): string {
  const lines: { readonly codes: string[]; readonly meaning: ErrorMeaning }[] = []
  for (const [code, meaning] of Object.entries(errors)) {
    const same = lines.find((line) => line.meaning.join() === meaning.join())
    if (same === undefined) lines.push({ codes: [code], meaning })
    else same.codes.push(code)
  }
  return table(
    ['Code', 'Fault', 'Tried again', 'What to do'],
    lines.map(({ codes, meaning: [fault, advice, tried] }) => [
      codes.map((code) => `\`${code}\``).join(', '),
      `\`${fault}\``,
      tried === undefined ? 'no' : 'yes',
      advice,
    ]),
  )
}

const headingOf = ({ title }: IntegrationDeclaration): string => {
  const name = title.replace(/^the /, '')
  return name.charAt(0).toUpperCase() + name.slice(1)
}

const sectionOf = async (each: IntegrationDeclaration): Promise<string> =>
  `### ${headingOf(each)}\n\n${await credentialOf(each)}\n\n${errorsOf(each)}`

export async function servicesSection(): Promise<string> {
  const all = Object.values(integrations) as IntegrationDeclaration[]
  return (await Promise.all(all.map(sectionOf))).join('\n\n')
}
