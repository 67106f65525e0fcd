import { Argument, InvalidArgumentError, type Command } from 'commander'
import type { AnswerOf, BodyOf } from '../api/routes/index.ts'
import { apiOf, command, organizationOf, type Shared } from './command.ts'
import { Failure, Refusal } from './failure.ts'
import { kinds, placed, someObjects, type ObjectFile } from './files.ts'
import type { Api } from './http.ts'
import { confirm, say, write, writeJson, writeLine } from './terminal.ts'
import { shownText } from '../shared/shown-text.ts'

export function addPlanCommands(program: Command): void {
  command(program, 'plan <folder>', 'say what `apply` would change; exit code 2 if it would change something')
    .option(
      '--repository <url>',
      'where the files are, in place of `repository` in countersign.yaml; without both nothing is deleted',
    )
    .option('--format <format>', '`text`, or `markdown` for a comment', formatOf, 'text')
    .action(plan)
  command(
    program,
    'apply <folder>',
    'show the plan, ask, and do it: all or nothing; exit code 2 if it waits for a second person',
  )
    .option(
      '--repository <url>',
      'where the files are, in place of `repository` in countersign.yaml; what came from it and is in no file any more is deleted; without both nothing is',
    )
    .option('--commit <commit>', 'the commit of the files, for the audit log')
    .option('-y, --yes', 'do not ask')
    .action(apply)
  command(program, 'release', 'give an object that comes from a file back to people')
    .addArgument(new Argument('<kind>').choices(kinds))
    .argument('<name>', 'as in the file; of a policy for a role `TOOL/ROLE`')
    .action(release)
}

function formatOf(text: string): 'text' | 'markdown' {
  if (text === 'text' || text === 'markdown') return text
  throw new InvalidArgumentError('Write `text` or `markdown`.')
}

const route = 'POST /organizations/{id}/apply'
type Applied = AnswerOf<typeof route>
type Change = Applied['changes'][number]

/** A looser change that waits for a second person. */
interface Held {
  readonly change: { readonly id: string; readonly why: readonly string[] }
}

interface Source {
  readonly repository?: string
  readonly commit?: string
}

/** Throws with the line of each mistake. */
export async function sendObjects(
  api: Api,
  files: readonly ObjectFile[],
  more: Omit<BodyOf<typeof route>, 'objects'>,
): Promise<Applied> {
  const objects = files.map(({ object, path }) => ({ ...object, path }))
  try {
    return await api.call(route, { params: { id: await organizationOf(api) }, body: { objects, ...more } })
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const isOfFile =
      error.code === 'conflict' &&
      error.details.some(({ path }) => files.some((file) => path.startsWith(file.path)))
    if (error.code !== 'validation_error' && !isOfFile) throw error
    throw new Failure(placed(error.details, files))
  }
}

/** What the command says comes before what the file of the settings says. */
export function sourceOf(files: readonly ObjectFile[], { repository: said, commit }: Source): Source {
  const repository = said ?? files.find((file) => file.repository !== null)?.repository
  return {
    ...(typeof repository === 'string' ? { repository } : {}),
    ...(commit === undefined ? {} : { commit }),
  }
}

async function plan(
  folder: string,
  options: Shared & Source & { format: 'text' | 'markdown' },
): Promise<void> {
  const files = someObjects(folder)
  const planned = await sendObjects(apiOf(), files, { ...sourceOf(files, options), dry_run: true })
  if (options.json === true) writeJson(planned)
  else if (options.format === 'markdown') write(markdown(planned))
  else show(planned)
  if (adoptedOf(planned) < planned.changes.length + planned.more) process.exitCode = 2
}

async function apply(folder: string, options: Shared & Source & { yes?: true }): Promise<void> {
  const [api, files] = [apiOf(), someObjects(folder)]
  const source = sourceOf(files, options)
  const planned = await sendObjects(api, files, { ...source, dry_run: true })
  if (!isChange(planned)) return options.json === true ? writeJson(planned) : show(planned)
  if (options.json !== true) show(planned)
  if (options.yes !== true && !(await confirm('Do exactly this?'))) throw new Failure('nothing was changed')
  const done = (await sendObjects(api, files, { ...source, plan: planned.plan })) as Applied | Held
  if ('change' in done) process.exitCode = 2
  if (options.json === true) return writeJson(done)
  if ('change' in done) {
    say('it waits for a second person, because:', 'yellow')
    for (const reason of done.change.why) say(`  ${reason}`)
    return writeLine('waiting', done.change.id, `${api.server}/console/approvals/${done.change.id}`)
  }
  writeLine('applied', totals(done))
}

async function release(kind: (typeof kinds)[number], name: string, { json }: Shared): Promise<void> {
  const api = apiOf()
  const answer = await api.call('POST /organizations/{id}/release', {
    params: { id: await organizationOf(api) },
    body: { objects: [{ kind, name }] },
  })
  if (json === true) return writeJson(answer)
  writeLine(answer.released === 0 ? 'it comes from no file' : 'released')
}

const isChange = ({ changes, more }: Applied): boolean => changes.length + more > 0

const totals = ({ created, changed, deleted, unchanged }: Applied): string =>
  `${created} created, ${changed} changed, ${deleted} deleted, ${unchanged} unchanged`

/** Objects that stay as they are, and come from these files from now on. */
const adoptedOf = ({ changes, more, created, changed, deleted }: Applied): number =>
  changes.length + more - created - changed - deleted

function planned(applied: Applied): string {
  const { created, changed, deleted, unchanged } = applied
  const adopted = adoptedOf(applied)
  const taken = adopted === 0 ? '' : `${adopted} to take over as they are, `
  return `${created} to create, ${changed} to change, ${deleted} to delete, ${taken}${unchanged - adopted} unchanged`
}

const signs = { create: '+', change: '~', delete: '-', adopt: '~' } as const
const tones = { create: 'green', change: 'yellow', delete: 'red', adopt: 'cyan' } as const

function show(applied: Applied): void {
  for (const change of applied.changes) {
    const [first = '', ...lines] = linesOf(change, signs[change.action])
    write(first, tones[change.action])
    for (const line of lines) write(line)
  }
  if (applied.more > 0) write(`and ${applied.more} more`)
  say(
    isChange(applied) ? `plan: ${planned(applied)}` : `nothing to do: ${applied.unchanged} unchanged`,
    'bold',
  )
}

function linesOf(
  { action, kind, name, path, lines, decided_otherwise: other }: Change,
  sign: string,
): string[] {
  const words = action === 'adopt' ? ', not from these files until now' : ''
  return [
    `${sign} ${kind} ${name}${path === null ? '' : ` (${path})`}${words}`,
    ...lines.map((line) => `    ${line}`),
    ...(other === null ? [] : [`    for example ${callOf(other.call)}: ${changeOf(other)}`]),
  ].map((line) => line.replaceAll('\n', '\\n'))
}

const callOf = ({ tool, params, labels }: NonNullable<Change['decided_otherwise']>['call']): string =>
  `${tool} ${JSON.stringify(params)}${labels.length === 0 ? '' : `, labels ${labels.join(', ')}`}`

const changeOf = ({ before, after, terms }: NonNullable<Change['decided_otherwise']>): string =>
  before === after ? `${terms.before ?? before} → ${terms.after ?? after}` : `${before} → ${after}`

/** Names come from the files of a stranger's branch: in a block of code they are no markup and mention nobody. */
function markdown(applied: Applied): string {
  if (!isChange(applied))
    return `### Countersign: nothing changes\n\n${applied.unchanged} objects stay as they are.`
  const marks = { create: '+', change: '!', delete: '-', adopt: '!' } as const
  const lines = applied.changes.flatMap((change) => linesOf(change, marks[change.action]))
  const more = applied.more > 0 ? [`and ${applied.more} more`] : []
  const text = shownText([...lines, ...more].join('\n'))
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length))
  const fence = '`'.repeat(longest + 1)
  return `### Countersign: ${planned(applied)}\n\n${fence}diff\n${text}\n${fence}\n\nPlan \`${applied.plan.slice(0, 12)}\``
}
