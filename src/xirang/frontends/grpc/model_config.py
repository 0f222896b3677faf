"""The messages of a model's configuration: what `config.pbtxt` and the RPC `ModelConfig` hold."""

MODEL_CONFIG = """\
DataType = TYPE_INVALID TYPE_BOOL TYPE_UINT8 TYPE_UINT16 TYPE_UINT32 TYPE_UINT64 TYPE_INT8
    TYPE_INT16 TYPE_INT32 TYPE_INT64 TYPE_FP16 TYPE_FP32 TYPE_FP64 TYPE_STRING TYPE_BF16
ModelRateLimiter: 1 resources ModelRateLimiter.Resource*, 2 priority uint32
ModelRateLimiter.Resource: 1 name string, 2 global bool, 3 count uint32
ModelInstanceGroup: 1 name string, 4 kind ModelInstanceGroup.Kind, 2 count int32,
    6 rate_limiter ModelRateLimiter, 3 gpus int32*,
    8 secondary_devices ModelInstanceGroup.SecondaryDevice*, 5 profile string*, 7 passive bool,
    9 host_policy string
ModelInstanceGroup.Kind = KIND_AUTO KIND_GPU KIND_CPU KIND_MODEL
ModelInstanceGroup.SecondaryDevice: 1 kind ModelInstanceGroup.SecondaryDevice.SecondaryDeviceKind,
    2 device_id int64
ModelInstanceGroup.SecondaryDevice.SecondaryDeviceKind = KIND_NVDLA
ModelTensorReshape: 1 shape int64*
ModelInput: 1 name string, 2 data_type DataType, 3 format ModelInput.Format, 4 dims int64*,
    5 reshape ModelTensorReshape, 6 is_shape_tensor bool, 7 allow_ragged_batch bool,
    8 optional bool, 9 is_non_linear_format_io bool
ModelInput.Format = FORMAT_NONE FORMAT_NHWC FORMAT_NCHW
ModelOutput: 1 name string, 2 data_type DataType, 3 dims int64*, 5 reshape ModelTensorReshape,
    4 label_filename string, 6 is_shape_tensor bool, 7 is_non_linear_format_io bool
BatchInput: 1 kind BatchInput.Kind, 2 target_name string*, 3 data_type DataType,
    4 source_input string*
BatchInput.Kind = BATCH_ELEMENT_COUNT BATCH_ACCUMULATED_ELEMENT_COUNT
    BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO BATCH_MAX_ELEMENT_COUNT_AS_SHAPE BATCH_ITEM_SHAPE
    BATCH_ITEM_SHAPE_FLATTEN
BatchOutput: 1 target_name string*, 2 kind BatchOutput.Kind, 3 source_input string*
BatchOutput.Kind = BATCH_SCATTER_WITH_INPUT_SHAPE
ModelVersionPolicy: 1 latest ModelVersionPolicy.Latest|policy_choice,
    2 all ModelVersionPolicy.All|policy_choice,
    3 specific ModelVersionPolicy.Specific|policy_choice
ModelVersionPolicy.Latest: 1 num_versions uint32
ModelVersionPolicy.All:
ModelVersionPolicy.Specific: 1 versions int64*
ModelOptimizationPolicy: 1 graph ModelOptimizationPolicy.Graph,
    2 priority ModelOptimizationPolicy.ModelPriority, 3 cuda ModelOptimizationPolicy.Cuda,
    4 execution_accelerators ModelOptimizationPolicy.ExecutionAccelerators,
    5 input_pinned_memory ModelOptimizationPolicy.PinnedMemoryBuffer,
    6 output_pinned_memory ModelOptimizationPolicy.PinnedMemoryBuffer,
    7 gather_kernel_buffer_threshold uint32, 8 eager_batching bool
ModelOptimizationPolicy.ModelPriority = PRIORITY_DEFAULT PRIORITY_MAX PRIORITY_MIN
ModelOptimizationPolicy.Graph: 1 level int32
ModelOptimizationPolicy.Cuda: 1 graphs bool, 2 busy_wait_events bool,
    3 graph_spec ModelOptimizationPolicy.Cuda.GraphSpec*, 4 output_copy_stream bool
ModelOptimizationPolicy.Cuda.GraphSpec: 1 batch_size int32,
    2 input string>ModelOptimizationPolicy.Cuda.GraphSpec.Shape,
    3 graph_lower_bound ModelOptimizationPolicy.Cuda.GraphSpec.LowerBound
ModelOptimizationPolicy.Cuda.GraphSpec.Shape: 1 dim int64*
ModelOptimizationPolicy.Cuda.GraphSpec.LowerBound: 1 batch_size int32,
    2 input string>ModelOptimizationPolicy.Cuda.GraphSpec.Shape
ModelOptimizationPolicy.ExecutionAccelerators:
    1 gpu_execution_accelerator ModelOptimizationPolicy.ExecutionAccelerators.Accelerator*,
    2 cpu_execution_accelerator ModelOptimizationPolicy.ExecutionAccelerators.Accelerator*
ModelOptimizationPolicy.ExecutionAccelerators.Accelerator: 1 name string,
    2 parameters string>string
ModelOptimizationPolicy.PinnedMemoryBuffer: 1 enable bool
ModelQueuePolicy: 1 timeout_action ModelQueuePolicy.TimeoutAction,
    2 default_timeout_microseconds uint64, 3 allow_timeout_override bool, 4 max_queue_size uint32
ModelQueuePolicy.TimeoutAction = REJECT DELAY
ModelDynamicBatching: 1 preferred_batch_size int32*, 2 max_queue_delay_microseconds uint64,
    3 preserve_ordering bool, 4 priority_levels uint64, 5 default_priority_level uint64,
    6 default_queue_policy ModelQueuePolicy, 7 priority_queue_policy uint64>ModelQueuePolicy
ModelSequenceBatching: 3 direct ModelSequenceBatching.StrategyDirect|strategy_choice,
    4 oldest ModelSequenceBatching.StrategyOldest|strategy_choice,
    1 max_sequence_idle_microseconds uint64, 2 control_input ModelSequenceBatching.ControlInput*,
    5 state ModelSequenceBatching.State*, 6 iterative_sequence bool
ModelSequenceBatching.Control: 1 kind ModelSequenceBatching.Control.Kind,
    2 int32_false_true int32*, 3 fp32_false_true float*, 5 bool_false_true bool*,
    4 data_type DataType
ModelSequenceBatching.Control.Kind = CONTROL_SEQUENCE_START CONTROL_SEQUENCE_READY
    CONTROL_SEQUENCE_END CONTROL_SEQUENCE_CORRID
ModelSequenceBatching.ControlInput: 1 name string, 2 control ModelSequenceBatching.Control*
ModelSequenceBatching.InitialState: 1 data_type DataType, 2 dims int64*,
    3 zero_data bool|state_data, 4 data_file string|state_data, 5 name string
ModelSequenceBatching.State: 1 input_name string, 2 output_name string, 3 data_type DataType,
    4 dims int64*, 5 initial_state ModelSequenceBatching.InitialState*,
    6 use_same_buffer_for_input_output bool, 7 use_growable_memory bool
ModelSequenceBatching.StrategyDirect: 1 max_queue_delay_microseconds uint64,
    2 minimum_slot_utilization float
ModelSequenceBatching.StrategyOldest: 1 max_candidate_sequences int32,
    2 preferred_batch_size int32*, 3 max_queue_delay_microseconds uint64, 4 preserve_ordering bool
ModelEnsembling: 1 step ModelEnsembling.Step*, 2 max_inflight_requests uint32
ModelEnsembling.Step: 1 model_name string, 2 model_version int64, 3 input_map string>string,
    4 output_map string>string, 5 model_namespace string
ModelParameter: 1 string_value string
ModelWarmup: 1 name string, 2 batch_size uint32, 3 inputs string>ModelWarmup.Input, 4 count uint32
ModelWarmup.Input: 1 data_type DataType, 2 dims int64*, 3 zero_data bool|input_data_type,
    4 random_data bool|input_data_type, 5 input_data_file string|input_data_type
ModelOperations: 1 op_library_filename string*
ModelTransactionPolicy: 1 decoupled bool
ModelRepositoryAgents: 1 agents ModelRepositoryAgents.Agent*
ModelRepositoryAgents.Agent: 1 name string, 2 parameters string>string
ModelResponseCache: 1 enable bool
ModelMetrics: 1 metric_control ModelMetrics.MetricControl*
ModelMetrics.MetricControl: 1 metric_identifier ModelMetrics.MetricControl.MetricIdentifier,
    2 histogram_options ModelMetrics.MetricControl.HistogramOptions|metric_options
ModelMetrics.MetricControl.MetricIdentifier: 1 family string
ModelMetrics.MetricControl.HistogramOptions: 1 buckets double*
ModelConfig: 1 name string, 2 platform string, 17 backend string, 25 runtime string,
    3 version_policy ModelVersionPolicy, 4 max_batch_size int32, 5 input ModelInput*,
    6 output ModelOutput*, 20 batch_input BatchInput*, 21 batch_output BatchOutput*,
    12 optimization ModelOptimizationPolicy,
    11 dynamic_batching ModelDynamicBatching|scheduling_choice,
    13 sequence_batching ModelSequenceBatching|scheduling_choice,
    15 ensemble_scheduling ModelEnsembling|scheduling_choice,
    7 instance_group ModelInstanceGroup*, 8 default_model_filename string,
    9 cc_model_filenames string>string, 10 metric_tags string>string,
    14 parameters string>ModelParameter, 16 model_warmup ModelWarmup*,
    18 model_operations ModelOperations, 19 model_transaction_policy ModelTransactionPolicy,
    23 model_repository_agents ModelRepositoryAgents, 24 response_cache ModelResponseCache,
    26 model_metrics ModelMetrics
"""
