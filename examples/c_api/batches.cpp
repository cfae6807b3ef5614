// Runs a model on rows of numbers, several batches at a time on the library's threads.
//
//     c++ -O2 -std=c++17 batches.cpp $(python -m graphwright.c_api --cflags --libs) -o batches
//     ./batches model.om rows.bin ROWS BATCH [REQUESTS] > results.bin
//
// rows.bin holds ROWS rows of f32: the model's first input, whose first axis is dynamic. The first output has
// one row for each; they are written to standard output in the same order.
#include <graphwright.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void check(gw_status status) {
    if (status != GW_STATUS_OK)
        throw std::runtime_error(gw_error_text());
}

struct Close {
    void operator()(gw_model *model) const { gw_close(model); }
    void operator()(gw_request *request) const { gw_request_destroy(request); }
};
using Model = std::unique_ptr<gw_model, Close>;
using Request = std::unique_ptr<gw_request, Close>;

Model open(const char *path) {
    gw_model *model = nullptr;
    check(gw_open(path, nullptr, &model));
    return Model(model);
}

std::vector<float> read_floats(const char *path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file)
        throw std::runtime_error(std::string(path) + " cannot be read");
    std::vector<float> numbers(static_cast<size_t>(file.tellg()) / sizeof(float));
    file.seekg(0);
    file.read(reinterpret_cast<char *>(numbers.data()),
              static_cast<std::streamsize>(numbers.size() * sizeof(float)));
    return numbers;
}

// Distributes batches to requests, and collects the results.
class Batches {
  public:
    Batches(gw_model *model, const std::vector<float> &rows, int64_t count, int64_t batch)
        : model(model), rows(rows), count(count), batch(batch),
          width(rows.size() / static_cast<size_t>(count)) {
        results.resize(static_cast<size_t>((count + batch - 1) / batch));
    }

    // Starts the requests; each starts itself again until no batch is left.
    void run(int requests) {
        std::vector<std::unique_ptr<Worker>> workers;
        for (int i = 0; i < requests; i++) {
            workers.push_back(std::make_unique<Worker>(this));
            workers.back()->start();
        }
        for (auto &worker : workers)
            gw_request_wait(worker->request.get());
        if (!fault.empty())
            throw std::runtime_error(fault);
    }

    std::vector<std::vector<float>> results; // of each batch

  private:
    struct Worker {
        explicit Worker(Batches *owner) : owner(owner) {
            gw_request *made = nullptr;
            check(gw_request_create(owner->model, &made));
            request.reset(made);
        }

        void start() {
            if (!owner->take(number))
                return;
            const int64_t first = number * owner->batch, rows = std::min(owner->batch, owner->count - first);
            std::vector<int64_t> shape = {rows};
            for (int axis = 1; axis < gw_tensor_rank(gw_input(owner->model, 0)); axis++)
                shape.push_back(gw_tensor_size(gw_input(owner->model, 0), axis));
            check(gw_request_set_input(request.get(), 0,
                                       owner->rows.data() + static_cast<size_t>(first) * owner->width,
                                       static_cast<size_t>(rows) * owner->width * sizeof(float), shape.data(),
                                       static_cast<int>(shape.size())));
            check(gw_request_start(request.get(), ended, this));
        }

        // Called from C: no exception may leave it.
        static void ended(gw_request *request, gw_status status, const char *text, void *user) {
            auto *worker = static_cast<Worker *>(user);
            try {
                if (status != GW_STATUS_OK)
                    throw std::runtime_error(text);
                auto *scores = static_cast<const float *>(gw_request_output_data(request, 0));
                worker->owner->results[static_cast<size_t>(worker->number)].assign(
                    scores, scores + gw_request_output_bytes(request, 0) / sizeof(float));
                worker->start();
            } catch (const std::exception &error) {
                worker->owner->fail(error.what());
            }
        }

        Batches *owner;
        Request request;
        int64_t number = 0;
    };

    bool take(int64_t &number) {
        const std::lock_guard<std::mutex> guard(lock);
        number = next++;
        return fault.empty() && number < static_cast<int64_t>(results.size());
    }

    void fail(const char *text) {
        const std::lock_guard<std::mutex> guard(lock);
        fault = text;
    }

    gw_model *model;
    const std::vector<float> &rows;
    int64_t count, batch;
    size_t width;
    std::mutex lock; // guards what follows
    int64_t next = 0;
    std::string fault;
};

} // namespace

int main(int count, char **arguments) try {
    if (count < 5)
        throw std::runtime_error("give MODEL.om ROWS.bin ROWS BATCH [REQUESTS]");
    const Model model = open(arguments[1]);
    const std::vector<float> rows = read_floats(arguments[2]);
    Batches batches(model.get(), rows, std::atoll(arguments[3]), std::atoll(arguments[4]));
    batches.run(count > 5 ? std::atoi(arguments[5]) : 4);
    for (const std::vector<float> &result : batches.results)
        std::fwrite(result.data(), sizeof(float), result.size(), stdout);
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "batches: %s\n", error.what());
    return 1;
}
