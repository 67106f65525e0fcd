import type { LabelSource } from '../../db/schema/runs.ts'
import { inputSource, filesInput, type UploadedFile } from '../../policy/templates.ts'
import { unionLabels, type Json } from '../../policy/types.ts'
import { JsonSize, mostValues } from '../../shared/json-size.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { Unsealing } from '../context.ts'
import { DomainError } from '../errors.ts'
import { fileBinding } from '../sealing/bindings.ts'

/** Texts and rows of all files of one run. A request's inputs have the same limit. */
export const mostFileBytes = 8 * 1024 ** 2

/** `value` becomes an input of the run. */
interface RunFiles {
  readonly value: Json
  /** Ids and hashes, from which the hash of the run's inputs is computed. */
  readonly given: Json
  readonly labels: LabelSource[]
}

/** null without any. Throws `validation_error` for what is unusable, `conflict` if a file is deleted meanwhile. */
export async function readRunFiles(
  context: Unsealing,
  organizationId: string,
  ids: readonly string[],
): Promise<RunFiles | null> {
  if (ids.length === 0) return null
  const rows = await context.db
    .selectFrom('files')
    .select(['id', 'name', 'media_type', 'size', 'sha256', 'labels', 'text_bytes', 'rows_bytes'])
    .where('organization_id', '=', organizationId)
    .where('id', 'in', ids)
    .execute()
  let bytes = 0
  const found = ids.map((id, at) => {
    const row = rows.find((each) => each.id === id)
    if (row === undefined)
      throw refusal(at, `is no file that you can see, or it was deleted (\`${id}\`): upload it again`)
    if (ids.indexOf(id) !== at) throw refusal(at, 'is named twice: name each file once')
    bytes += row.text_bytes + (row.rows_bytes ?? 0)
    if (bytes > mostFileBytes)
      throw refusal(
        at,
        `the text and rows of the files take more than ${mostFileBytes / 1024 ** 2} MiB: name fewer or smaller files`,
      )
    return row
  })
  const values = new JsonSize()
  const value: UploadedFile[] = []
  for (const [at, { id, name, media_type, size }] of found.entries()) {
    const { text, rows } = await contents(context, organizationId, id)
    if (rows !== null && !values.add(rows))
      throw refusal(at, `the rows of the files have more than ${mostValues} values: name fewer files`)
    const file = { id, name, media_type, size, text }
    value.push(rows === null ? file : { ...file, rows: JSON.parse(rows) as Json })
  }
  return {
    value: value as unknown as Json,
    given: found.map(({ id, sha256 }) => ({ id, sha256 })),
    labels: unionLabels(found.flatMap(({ labels }) => labels)).map((label) => ({
      label,
      from: [
        inputSource(filesInput),
        ...found.filter(({ labels }) => labels.includes(label)).map(({ id }) => id),
      ],
    })),
  }
}

function refusal(at: number, message: string): DomainError {
  return new DomainError('validation_error', `\`files[${at}]\` ${message}`, [
    { path: `files.${at}`, message },
  ])
}

async function contents(
  { db, sealer }: Unsealing,
  organizationId: string,
  id: string,
): Promise<{ readonly text: string; readonly rows: string | null }> {
  const row = await db
    .selectFrom('files')
    .select(['text_sealed', 'rows_sealed'])
    .where('id', '=', id)
    .where('organization_id', '=', organizationId)
    .executeTakeFirst()
  if (row === undefined) throw new DomainError('conflict', `the file \`${id}\` was deleted meanwhile`)
  const text = await sealer.open(fileBinding(organizationId, id, 'text'), row.text_sealed)
  const rows =
    row.rows_sealed === null
      ? null
      : await sealer.open(fileBinding(organizationId, id, 'rows'), row.rows_sealed)
  return { text, rows }
}

/** Call this in the transaction that accepts the run. */
export async function noteUse(tx: ChainTx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return
  await tx.trx
    .updateTable('files')
    .set({ last_used_at: tx.now })
    .where('organization_id', '=', tx.organizationId)
    .where('id', 'in', [...ids])
    .execute()
}
