import { expect } from '@jest/globals'
import { Client, Connection } from '@temporalio/client'
import { readTemporalConfig } from '../../src/stack/temporal-config.ts'
import { until } from '../stack/until.ts'

/** Makes a workflow task fail, and expects a line in the log of the worker. */
export async function expectFailedTask(
  address: string,
  lines: () => readonly { readonly msg: string }[],
): Promise<void> {
  const connection = await Connection.connect({ address })
  const client = new Client({ connection, namespace: readTemporalConfig().namespace })
  try {
    // The worker has no workflow of this type, so each task of it fails until it is terminated.
    const options = { taskQueue: 'countersign', workflowId: 'unknown' }
    const workflow = await client.workflow.start('unknown', options)
    const failed = () => lines().filter(({ msg }) => msg === 'Temporal: Failing workflow task')
    await until('the log says it', () => failed().length > 0)
    expect(failed()[0]).toMatchObject({ level: 40, temporal_run_id: workflow.firstExecutionRunId })
    await workflow.terminate()
  } finally {
    await connection.close()
  }
}
