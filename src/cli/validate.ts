import type { Command } from 'commander'
import type { BodyOf } from '../api/routes/index.ts'
import { apiOf, command, type Shared } from './command.ts'
import { Failure, Refusal } from './failure.ts'
import { placed, readObjects, type ObjectFile } from './files.ts'
import type { Api } from './http.ts'
import { writeJson, writeLine } from './terminal.ts'

export function addValidate(program: Command): void {
  command(
    program,
    'validate <path>',
    'check the files of a folder, or one file, without saving anything',
  ).action(validate)
}

async function validate(path: string, { json }: Shared): Promise<void> {
  const api = apiOf()
  const files = readObjects(path)
  if (files.length === 0) throw new Failure(`\`${path}\` has no file that ends in .yaml, .yml or .json`)
  const mistakes: string[] = []
  for (const file of files)
    if (file.object.kind === 'workflow') mistakes.push(...(await mistakesOf(api, file, files)))
  if (mistakes.length > 0) throw new Failure(mistakes)
  if (json === true) writeJson({ valid: true, files: files.length })
  else writeLine('valid', `${files.length} ${files.length === 1 ? 'file' : 'files'}`)
}

async function mistakesOf(api: Api, file: ObjectFile, files: readonly ObjectFile[]): Promise<string[]> {
  const definition = (file.object['definition'] ?? {}) as BodyOf<'POST /workflows/validate'>['definition']
  try {
    await api.call('POST /workflows/validate', { body: { definition } })
    return []
  } catch (error) {
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
