import type { Command } from 'commander'
import type { BodyOf } from '../api/routes/index.ts'
import { apiOf, command, type Shared } from './command.ts'
import { Failure, Refusal } from './failure.ts'
import { placed, readFlawed, someObjects, type ObjectFile } from './files.ts'
import type { Api } from './http.ts'
import { sendObjects, sourceOf } from './plan.ts'
import { writeJson, writeLine } from './terminal.ts'

export function addValidate(program: Command): void {
  command(program, 'validate <path>', 'check the files of a folder, or one file, without saving anything')
    .option('--repository <url>', 'where the files are')
    .action(validate)
}

async function validate(path: string, { json, repository }: Shared & { repository?: string }): Promise<void> {
  const api = apiOf()
  const { objects: files, mistakes } = readFlawed(path)
  if (files.length === 0) someObjects(path)
  try {
    await check(api, files, sourceOf(files, repository === undefined ? {} : { repository }))
  } catch (error) {
    throw error instanceof Failure && mistakes.length > 0 ? new Failure([...mistakes, ...error.lines]) : error
  }
  if (mistakes.length > 0) throw new Failure(mistakes)
  if (json === true) writeJson({ valid: true, files: files.length })
  else writeLine('valid', `${files.length} ${files.length === 1 ? 'file' : 'files'}`)
}

/** Throws with all mistakes. */
async function check(
  api: Api,
  files: readonly ObjectFile[],
  source: ReturnType<typeof sourceOf>,
): Promise<void> {
  const areWorkflows = files.every(({ object }) => object.kind === 'workflow')
  if (!areWorkflows || !(await areFlawless(api, files)))
    await sendObjects(api, files, { ...source, dry_run: true })
}

/** Workflows alone need no slug, and no right but to write them. False: the key may not. Throws with all mistakes. */
async function areFlawless(api: Api, files: readonly ObjectFile[]): Promise<boolean> {
  const mistakes: string[] = []
  for (const file of files) {
    const found = await mistakesOf(api, file, files)
    if (found === null) return false
    mistakes.push(...found)
  }
  if (mistakes.length > 0) throw new Failure(mistakes)
  return true
}

async function mistakesOf(
  api: Api,
  file: ObjectFile,
  files: readonly ObjectFile[],
): Promise<string[] | null> {
  const definition = (file.object['definition'] ?? {}) as BodyOf<'POST /workflows/validate'>['definition']
  try {
    await api.call('POST /workflows/validate', { body: { definition } })
    return []
  } catch (error) {
    if (error instanceof Refusal && error.code === 'missing_scope') return null
    if (!(error instanceof Refusal) || error.code !== 'validation_error') throw error
    const isDocument = file.yaml.placeOf('definition') === file.yaml.placeOf('')
    return placed(
      error.details.map(({ path, message }) => ({
        path: `${file.path}.${isDocument ? path.replace(/^definition\.?/, '') : path}`,
        message,
      })),
      files,
    )
  }
}
