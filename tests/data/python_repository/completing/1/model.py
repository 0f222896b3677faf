"""Says itself what it takes and gives: there is no configuration beside it."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(auto_complete_model_config):
        config = auto_complete_model_config.as_dict()
        if not config["input"]:
            auto_complete_model_config.add_input(
                {"name": "X", "data_type": "TYPE_INT64", "dims": [-1]}
            )
        auto_complete_model_config.add_output(
            {"name": "Y", "data_type": "TYPE_INT64", "dims": [-1]}
        )
        auto_complete_model_config.set_max_batch_size(16)
        auto_complete_model_config.set_dynamic_batching()
        return auto_complete_model_config

    def execute(self, requests):
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("Y", pb_utils.get_input_tensor_by_name(r, "X").as_numpy() * 2)]
            )
            for r in requests
        ]
