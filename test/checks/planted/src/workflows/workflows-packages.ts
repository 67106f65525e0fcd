import '@temporalio/client'
