import type { Context } from '../context.ts'

/**
 * Checks whether Temporal answers. Stores the result in `isTemporalAway`, which the status texts of runs use. Logs each
 * change of the result. If Temporal does not answer, `check` resolves to false or throws.
 */
export async function watchTemporal(
  context: Pick<Context, 'isTemporalAway' | 'log'>,
  check: () => Promise<boolean>,
): Promise<void> {
  let cause: unknown
  const answers = await check().catch((error: unknown) => {
    cause = error
    return false
  })
  if (answers === !context.isTemporalAway) return
  context.isTemporalAway = !answers
  if (answers) context.log.info('Temporal answers again')
  else context.log.warn({ err: cause }, 'Temporal cannot be reached: runs wait until it is back')
}
